"""Names by directory, against one list of all."""

from itertools import count
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from chaos.simulator.disk.names import Name, Names

DIRECTORIES = [Path("/d"), Path("/d/a"), Path("/d/a/b"), Path("/d/ab"), Path("/e")]
directories = st.sampled_from(DIRECTORIES)
steps = st.one_of(
    st.tuples(st.just("add"), directories, st.none() | directories),
    st.tuples(st.just("take"), st.none() | directories, st.none()),
    st.tuples(st.just("take below"), directories, st.none()),
    st.tuples(st.just("follow"), directories, st.none()),
)


def below(path: Path, directory: Path) -> bool:
    """Whether it is in the directory or in one of it."""
    return directory in path.parents


@given(st.lists(steps, max_size=40))
def test_names_are_one_list(drawn: list[tuple[str, Path | None, Path | None]]) -> None:
    """After each step both agree on the names taken, on those left, on their paths, and on the order."""
    names, listed, numbers, moves = Names(), list[tuple[int, list[Path]]](), count(1), count(1)
    for step, directory, other in drawn:
        taken: list[Name] = []
        over: list[tuple[int, list[Path]]] = []
        if step == "add":
            assert directory is not None
            number = next(numbers)
            paths = [where / str(number) for where in (directory, other) if where is not None]
            names.add(Name(list(paths), lambda *_: None, lambda: None))
            listed.append((number, paths))
        elif step == "take":
            taken = names.take(directory)
            over = [each for each in listed if directory is None or each[1][0].parent == directory]
        elif step == "take below":
            assert directory is not None
            taken = names.take_below(directory)
            over = [each for each in listed if below(each[1][0], directory)]
        else:
            assert directory is not None
            new = Path("/moved") / str(next(moves))
            names.follow(directory, new)
            for _, paths in listed:
                paths[:] = [new / path.relative_to(directory) if below(path, directory) else path for path in paths]
        assert [(each.number, each.paths) for each in taken] == over
        listed = [each for each in listed if each not in over]
        assert [(each.number, each.paths) for each in names] == listed
