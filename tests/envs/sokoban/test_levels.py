"""Parsing, validating and naming levels."""

from __future__ import annotations

import pytest

from creditflow.envs.errors import LevelError
from creditflow.envs.sokoban import level_task, parse_level, parse_levels, read_levels
from creditflow.envs.sokoban.levels import xsb

SMALL = "#####\n#@$.#\n#####"
RAGGED = "  ####\n###  ####\n#     $ #\n# #  #$ #\n# . .#@ #\n#########"


def test_all_levels_of_boxoban_files_are_read_with_their_numbers(boxoban_file):
    levels = read_levels(boxoban_file)
    headers = [line[1:].strip() for line in boxoban_file.read_text().splitlines() if line.startswith(";")]
    assert [level.name for level in levels] == [f"{boxoban_file.stem}:{number}" for number in headers]
    assert {(level.height, level.width, len(level.boxes)) for level in levels} == {(10, 10, 4)}


def test_boxoban_rows_are_kept_exactly(boxoban_file):
    blocks = boxoban_file.read_text().split("; ")[1:]
    for level, block in zip(read_levels(boxoban_file), blocks, strict=True):
        assert level.xsb == "\n".join(block.splitlines()[1:11])


def test_a_folder_names_levels_by_relative_path(tmp_path):
    for name in ("b/000.txt", "a.xsb"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"; 17\n{SMALL}\n\n; 4\n{SMALL}\n")
    (tmp_path / "README.md").write_text("not a level file")
    assert [level.name for level in read_levels(tmp_path)] == ["a:17", "a:4", "b/000:17", "b/000:4"]


def test_levels_without_numbers_are_counted_from_zero():
    assert [level.name for level in parse_levels(f"{SMALL}\n\n{SMALL}", source="x")] == ["0", "1"]


def test_ragged_rows_are_padded_and_margins_trimmed():
    level = parse_level("\n\n" + "\n".join("   " + row for row in RAGGED.split("\n")) + "\n\n")
    assert level.xsb.split("\n") == [row.ljust(9) for row in RAGGED.split("\n")]
    assert (level.height, level.width) == (6, 9)


@pytest.mark.parametrize("floor", ["-", "_"])
def test_floor_synonyms_mean_the_same_level(floor):
    assert parse_level(RAGGED.replace(" ", floor)) == parse_level(RAGGED)


def test_metadata_comments_and_carriage_returns_are_not_rows():
    text = "Title: first\r\n; by nobody\r\n" + SMALL.replace("\n", "\r\n") + "\r\nAuthor: x\r\n"
    assert parse_level(text).xsb == SMALL


def test_boxes_and_players_on_targets_are_understood():
    level = parse_level("######\n#+$* #\n######")
    assert len(level.boxes) == len(level.targets) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#####\n# $.#\n#####", "exactly one player"),
        ("#####\n#@$.#\n#+  #\n#####", "exactly one player"),
        ("#####\n#@$ #\n#####", "1 boxes but 0 targets"),
        ("#####\n#@  #\n#####", "no box"),
        ("#####\n#@* #\n#####", "already solved"),
        ("#####\n#@$. \n#####", "open to the outside"),
        ("## ##\n#@$.#\n#####", "open to the outside"),
        ("@$.\n# #\n###", "open to the outside"),
        ("#####\n#@$.#\n#####\n\n#####\n#@$.#\n#####", "more than one"),
        ("#####\n#@$.#\n#####\n-----\n#####", "splits the level in two"),
        ("", "found none"),
        ("; only a comment", "found none"),
        ("@", "3 to 64 rows"),
        ("#" * 65 + "\n" + "#@$." + "#" * 61 + "\n" + "#" * 65, "3 to 64 rows"),
    ],
)
def test_malformed_levels_are_rejected_with_the_reason(text, message):
    with pytest.raises(LevelError, match=message):
        parse_level(text)


def test_unknown_characters_name_source_line_and_character():
    with pytest.raises(LevelError, match=r"maze\.txt, line 3: unknown character 'x'"):
        parse_levels("; 0\n#####\n#x$.#\n#####", source="maze.txt")


def test_errors_in_files_name_the_file(tmp_path):
    path = tmp_path / "bad.txt"
    path.write_text(f"{SMALL}\n\n#####\n#  .#\n#####\n")
    with pytest.raises(LevelError, match=r"bad\.txt, line 5: expected exactly one player"):
        read_levels(path)


def test_missing_empty_binary_and_huge_files_are_rejected(tmp_path, monkeypatch):
    with pytest.raises(LevelError, match="no such file"):
        read_levels(tmp_path / "none.txt")
    with pytest.raises(LevelError, match="no level file"):
        read_levels(tmp_path)
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(LevelError, match="UTF-8"):
        read_levels(tmp_path / "binary.txt")
    (tmp_path / "big.txt").write_text(SMALL)
    monkeypatch.setattr(xsb, "MAX_LEVELS_FILE", 5)
    with pytest.raises(LevelError, match="more than 5 bytes"):
        read_levels(tmp_path / "big.txt")


def test_too_many_levels_are_rejected(monkeypatch):
    monkeypatch.setattr(xsb, "MAX_LEVELS", 2)
    with pytest.raises(LevelError, match="more than 2 levels"):
        parse_levels(f"{SMALL}\n\n" * 3, source="x")


def turned(xsb: str) -> str:
    return "\n".join("".join(column) for column in zip(*xsb.split("\n")[::-1], strict=True))


def flipped(xsb: str) -> str:
    return "\n".join(row[::-1] for row in xsb.split("\n"))


def test_the_eight_symmetries_share_the_canonical_id_only():
    texts = [parse_level(RAGGED).xsb]
    for _ in range(3):
        texts.append(turned(texts[-1]))
    tasks = [level_task(parse_level(text)) for text in [*texts, *map(flipped, texts)]]
    assert len({task.canonical_id for task in tasks}) == 1
    assert len({task.task_id for task in tasks}) == 8


def test_a_moved_box_changes_the_canonical_id():
    ids = {level_task(parse_level(row)).canonical_id for row in ("######\n#@$ .#\n######", "######\n#@ $.#\n######")}
    assert len(ids) == 2


def test_the_task_id_of_a_level_is_pinned():
    assert level_task(parse_level(SMALL)).task_id == "sokoban1:cb4a85b46f4c7bef56c057052a33f24f"


def test_the_name_is_not_part_of_the_content():
    named, plain = parse_levels(f"; 9\n{SMALL}", source="x")[0], parse_level(SMALL)
    assert named == plain
    assert level_task(named) == level_task(plain)
