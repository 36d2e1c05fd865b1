"""What can be wrong with an index, each with the response it becomes."""

from services.contracts.errors import Conflict, NotFound, PermissionDenied, StorageFull, Unavailable


class UnknownIndex(NotFound):
    """No index has that name."""

    code = "index_not_found"


class IndexUnusable(Unavailable):
    """The index is damaged, half-written or of another format; the message says where and how."""

    code = "index_unusable"


class IndexBusy(Conflict):
    """Another build or change has the index; the same request may succeed later."""

    code = "index_busy"


class IndexReadOnly(PermissionDenied):
    """The index lies where this process may not write."""

    code = "index_read_only"


class IndexFull(Conflict):
    """So much was added since the index was built that it has to be built again."""

    code = "index_full"


class OutOfDisk(StorageFull):
    """The disk of the index is full; the index is as it was."""

    code = "out_of_disk"
