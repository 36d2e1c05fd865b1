"""Joins pictures and the words beside them, in a Python that has Pillow: as an animated WebP, or
side by side.

    python infra/recording/join.py animation FOLDER PICTURE
    python infra/recording/join.py sheet FOLDER PICTURE
"""

import sys
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

SECONDS = 2.5
LAST_SECONDS = 5.0
STRIP = 40
"""Height in pixels of the strip with the words, below each picture."""
QUALITY = 60
COLUMNS = 2
SHEET_SCALE = 0.6


def main(kind: str, folder: Path, picture: Path) -> None:
    """Write the picture."""
    shots = sorted(folder.glob("*.png"))
    framed = [_framed(shot, f"{number}/{len(shots)}  ") for number, shot in enumerate(shots, 1)]
    if kind == "animation":
        _animate(framed, picture)
    else:
        _sheet([_framed(shot, "") for shot in shots], picture)


def _framed(path: Path, number: str) -> Image.Image:
    """A picture above its words."""
    shot = Image.open(path).convert("RGB")
    frame = Image.new("RGB", (shot.width, shot.height + STRIP), "#1f2937")
    frame.paste(shot, (0, 0))
    words = f"{number}{path.with_suffix('.txt').read_text()}"
    font = ImageFont.load_default(size=18)
    ImageDraw.Draw(frame).text((16, shot.height + 9), words, fill="white", font=font)
    return frame


def _animate(frames: list[Image.Image], picture: Path) -> None:
    """One after the other, repeating."""
    durations = [int(1000 * SECONDS)] * (len(frames) - 1) + [int(1000 * LAST_SECONDS)]
    frames[0].save(
        picture,
        save_all=True,
        append_images=frames[1:],
        duration=durations,
        loop=0,
        quality=QUALITY,
        method=6,
    )


def _sheet(frames: list[Image.Image], picture: Path) -> None:
    """In columns, smaller."""
    width, height = (int(side * SHEET_SCALE) for side in frames[0].size)
    rows = -(-len(frames) // COLUMNS)
    sheet = Image.new("RGB", (COLUMNS * width, rows * height), "#1f2937")
    for number, frame in enumerate(frames):
        row, column = divmod(number, COLUMNS)
        sheet.paste(frame.resize((width, height), Image.LANCZOS), (column * width, row * height))
    sheet.save(picture, quality=QUALITY, method=6)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
