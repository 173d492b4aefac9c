"""The fonts that pictures are drawn with: a monospaced one, and others for what it does not have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from tmuxmcp.contract.errors import Unsupported
from tmuxmcp.terminal.drawing.picture import FontFile, Fonts

FONT_FOLDERS = (
    *("/usr/share/fonts", "/usr/local/share/fonts", "/System/Library/Fonts", "/Library/Fonts"),
    *("~/.local/share/fonts", "~/.fonts", "~/Library/Fonts"),
)

MONOSPACED_FONTS = (
    ("DejaVuSansMono", "-Bold", "-Oblique", "-BoldOblique"),
    ("LiberationMono-Regular", "LiberationMono-Bold", "LiberationMono-Italic", "LiberationMono-BoldItalic"),
    ("NotoSansMono-Regular", "NotoSansMono-Bold", "", ""),
    ("FreeMono", "FreeMonoBold", "FreeMonoOblique", "FreeMonoBoldOblique"),
    ("Menlo", "", "", ""),
)
"""Names of regular, bold, italic and bold italic, without endings; a name with a hyphen first is added to the first."""

PACKAGED_FONTS = ("fontpkg_jetbrains_mono", "JetBrainsMono[wght].ttf", "JetBrainsMono-Italic[wght].ttf")
"""The package that brings a font with every installation; both files have all weights."""

FALLBACK_FONTS = (
    *("DejaVuSans", "NotoSansMonoCJK-VF", "NotoSansMonoCJK-Regular", "NotoSansCJK-Regular"),
    *("wqy-microhei", "wqy-zenhei", "DroidSansFallbackFull", "DroidSansFallback", "unifont"),
    *("NotoColorEmoji", "NotoEmoji-Regular", "Symbola"),
    *("Apple Symbols", "PingFang", "Hiragino Sans GB", "Apple Color Emoji"),
)
"""For symbols, Chinese, Japanese, Korean and emoji; the first that has a character."""

FONT_ENDINGS = (".ttf", ".otf", ".ttc")
FONT_FILES = 20_000
"""Files that are looked at in all folders."""


@lru_cache(maxsize=1)
def find() -> Fonts:
    """The fonts of this machine.

    Raises:
        Unsupported: there is none that is monospaced.
    """
    files = _installed()
    for names in MONOSPACED_FONTS:
        wanted = [names[0] + name if name.startswith("-") else name for name in names]
        if wanted[0] in files:
            more = [_file(files[name]) if name in files else None for name in wanted[1:]]
            return Fonts(_file(files[wanted[0]]), more[0], more[1], more[2], tuple(_others(files)))
    packaged = list(_packaged())
    if not packaged:
        raise Unsupported(
            "There is no monospaced font to draw with.",
            hint="Install one (apt install fonts-dejavu-core), or tmuxmcp again, which brings one. `read` gives text.",
        )
    regular, bold, italic, bold_italic = packaged
    return Fonts(regular, bold, italic, bold_italic, tuple(_others(files)))


def _packaged() -> Iterator[FontFile]:
    spec = find_spec(PACKAGED_FONTS[0])
    if spec and spec.submodule_search_locations:
        folder = Path(spec.submodule_search_locations[0], "files")
        regular, italic = folder / PACKAGED_FONTS[1], folder / PACKAGED_FONTS[2]
        if regular.is_file() and italic.is_file():
            for path, weight in ((regular, 400), (regular, 700), (italic, 400), (italic, 700)):
                yield FontFile(str(path), path.read_bytes, weight)


def _others(files: dict[str, Path]) -> Iterator[FontFile]:
    yield from (_file(files[name]) for name in FALLBACK_FONTS if name in files)
    yield from list(_packaged())[:1]


def _file(path: Path) -> FontFile:
    return FontFile(str(path), path.read_bytes)


def _installed() -> dict[str, Path]:
    """Paths of font files, by their names without endings."""
    found: dict[str, Path] = {}
    left = FONT_FILES
    for folder in FONT_FOLDERS:
        for path in _files_below(Path(folder).expanduser()):
            left -= 1
            if left < 0:
                return found
            if path.suffix.lower() in FONT_ENDINGS:
                found.setdefault(path.stem, path)
    return found


def _files_below(folder: Path) -> Iterator[Path]:
    with suppress(OSError):
        yield from sorted(folder.rglob("*")) if folder.is_dir() else ()
