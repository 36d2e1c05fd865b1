"""The table of rooms that .ci/run prints."""

from infra.testing.rooms import rooms, table


def file(statements: int, covered: int) -> dict[str, object]:
    return {"summary": {"num_statements": statements, "covered_lines": covered}}


def test_each_room_sums_up_its_files_at_any_depth() -> None:
    report = {
        "files": {
            "services/jobs/store.py": file(10, 9),
            "services/jobs/worker/run.py": file(1990, 991),
            "temper/settings.py": file(5, 5),
            "temper/stack/__init__.py": file(0, 0),
        }
    }

    assert [line.split() for line in table(rooms(report))][1:] == [
        ["services/jobs", "2,000", "50.0%"],
        ["temper", "5", "100.0%"],
        ["all", "2,005", "50.1%"],
    ]
