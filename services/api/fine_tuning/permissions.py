"""/v1/fine_tuning/checkpoints/{checkpoint}/permissions."""

import time
from typing import Annotated

from fastapi import APIRouter, Query
from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from services.api.context import Gateway
from services.contracts.base import DEFAULT_LIMIT, Deleted, Page
from services.contracts.errors import AuthenticationFailed, InvalidRequest, NotFound
from services.contracts.training.checkpoint_permissions import (
    CheckpointPermission,
    GrantPermissions,
    Order,
    ProjectId,
)
from services.core.db.engine import advisory_lock
from services.core.db.tables import CheckpointPermissionRow
from services.core.ids import new_id
from services.core.web.auth import Principal
from services.core.web.errors import documented_errors
from services.core.web.paging import After, Limit, page_of
from services.models.registry import get_model_row

MAX_PERMISSIONS = 1000
"""Per checkpoint."""

# Names of fine-tuned models contain colons, names of base models slashes.
router = APIRouter(
    prefix="/v1/fine_tuning/checkpoints/{checkpoint:path}/permissions",
    tags=["fine-tuning"],
    responses=documented_errors(AuthenticationFailed, NotFound),
)


@router.post("", summary="Grant projects a checkpoint", responses=documented_errors(InvalidRequest))
def grant_permissions(
    gateway: Gateway, _principal: Principal, checkpoint: str, body: GrantPermissions
) -> Page[CheckpointPermission]:
    """Record that projects may use a checkpoint or fine-tuned model; access depends on keys alone.

    Existing permissions are returned unchanged.
    """
    with gateway.database.write() as session:
        advisory_lock(session, f"permissions of {checkpoint}")
        get_model_row(session, checkpoint, param="checkpoint")
        granted = _grant(session, checkpoint, list(dict.fromkeys(body.project_ids)))
        return page_of([_view(row) for row in granted], has_more=False)


@router.get("", summary="List permissions", responses=documented_errors(InvalidRequest))
def list_permissions(
    gateway: Gateway,
    _principal: Principal,
    checkpoint: str,
    project_id: Annotated[ProjectId | None, Query()] = None,
    order: Order = Order.DESCENDING,
    after: After = None,
    limit: Limit = DEFAULT_LIMIT,
) -> Page[CheckpointPermission]:
    """List the permissions of a checkpoint or fine-tuned model."""
    with gateway.database.read() as session:
        get_model_row(session, checkpoint, param="checkpoint")
        seq = CheckpointPermissionRow.seq
        query = _of(checkpoint).order_by(seq if order is Order.ASCENDING else seq.desc())
        if project_id is not None:
            query = query.where(CheckpointPermissionRow.project_id == project_id)
        if after is not None:
            last = session.scalar(_of(checkpoint).where(CheckpointPermissionRow.id == after))
            if last is None:
                raise InvalidRequest(f"no permission {after[:80]!r}", param="after")
            query = query.where(seq > last.seq if order is Order.ASCENDING else seq < last.seq)
        rows = session.scalars(query.limit(limit + 1)).all()
        return page_of([_view(row) for row in rows[:limit]], has_more=len(rows) > limit)


@router.delete("/{permission_id}", summary="Revoke a permission")
def revoke_permission(
    gateway: Gateway, _principal: Principal, checkpoint: str, permission_id: str
) -> Deleted:
    """Delete a permission."""
    with gateway.database.write() as session:
        row = session.scalar(_of(checkpoint).where(CheckpointPermissionRow.id == permission_id))
        if row is None:
            raise NotFound(
                f"checkpoint {checkpoint!r} has no permission {permission_id[:80]!r}",
                param="permission_id",
                code="permission_not_found",
            )
        session.delete(row)
    return Deleted(id=permission_id, object="checkpoint.permission")


def _grant(
    session: Session, checkpoint: str, project_ids: list[str]
) -> list[CheckpointPermissionRow]:
    granted = {
        row.project_id: row
        for row in session.scalars(
            _of(checkpoint).where(CheckpointPermissionRow.project_id.in_(project_ids))
        )
    }
    missing = [project for project in project_ids if project not in granted]
    count = session.scalar(
        select(func.count()).where(CheckpointPermissionRow.checkpoint == checkpoint)
    )
    if (count or 0) + len(missing) > MAX_PERMISSIONS:
        raise InvalidRequest(
            f"a checkpoint has at most {MAX_PERMISSIONS} permissions; this one has {count}",
            param="project_ids",
        )
    for project in missing:
        granted[project] = CheckpointPermissionRow(
            id=new_id("cp"), checkpoint=checkpoint, project_id=project, created_at=time.time()
        )
        session.add(granted[project])
    session.flush()
    return [granted[project] for project in project_ids]


def _of(checkpoint: str) -> Select[CheckpointPermissionRow]:
    return select(CheckpointPermissionRow).where(CheckpointPermissionRow.checkpoint == checkpoint)


def _view(row: CheckpointPermissionRow) -> CheckpointPermission:
    return CheckpointPermission(
        id=row.id, created_at=int(row.created_at), project_id=row.project_id
    )
