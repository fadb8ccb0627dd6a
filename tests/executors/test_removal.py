"""What a hostile program leaves behind can be removed, however it was made."""

import os

from arl_tangram.executors.removal import remove_tree


def test_a_tree_deeper_than_any_path_is_removed(tmp_path):
    folder = tmp_path / "deep"
    folder.mkdir()
    here = os.open(folder, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)

    remove_tree(folder)

    assert not folder.exists()


def test_links_are_removed_and_not_followed(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    folder = tmp_path / "folder"
    (folder / "below").mkdir(parents=True)
    (folder / "link").symlink_to(outside)
    (folder / "below" / "link").symlink_to(outside)
    os.mkfifo(folder / "below" / "pipe")
    (folder / "below").chmod(0o500)

    remove_tree(folder)

    assert not folder.exists()
    assert "kept" == (outside / "kept").read_text()


def test_what_is_not_there_is_removed_already(tmp_path):
    remove_tree(tmp_path / "nothing")

    assert not (tmp_path / "nothing").exists()
