"""Writes data.safetensors beside this file: what Pillow, NumPy and the standard library make of a
few small images, for test/horovod_cpp/data. Needs NumPy, safetensors and Pillow: the file was made
with 9.4; release 13 resizes some sizes columns first, which rounds differently.

    python test/support/reference/data.py
"""

import colorsys
import io
import pathlib
import struct
import zlib

import numpy as np
from PIL import Image
from safetensors.numpy import save_file

tensors = {}
random = np.random.default_rng(5)


def planes(image):
    array = np.asarray(image)
    return np.ascontiguousarray(array[None] if array.ndim == 2 else array.transpose(2, 0, 1))


def smooth(height, width, channels=3):
    """A picture that JPEG keeps nearly as it is."""
    y, x = np.mgrid[:height, :width]
    waves = [127 + 100 * np.sin(x / (4 + c) + c) * np.cos(y / (5 + c)) for c in range(channels)]
    return np.stack(waves, axis=-1).astype(np.uint8)


def resize_cases():
    noise = random.integers(0, 256, (17, 23, 3), dtype=np.uint8)
    tensors["resize/image"] = planes(noise)
    tensors["resize/image_f32"] = planes(noise).astype(np.float32) / 255
    for height, width in [(8, 8), (5, 40), (34, 23), (17, 9), (1, 1), (40, 50)]:
        size = (width, height)
        name = f"resize/{height}x{width}"
        resized = Image.fromarray(noise).resize(size, Image.BILINEAR)
        tensors[name] = planes(resized)
        tensors[name + "_f32"] = np.stack([
            np.asarray(Image.fromarray(plane).resize(size, Image.BILINEAR))
            for plane in tensors["resize/image_f32"]])


def encoded(image, **options):
    file = io.BytesIO()
    image.save(file, **options)
    return np.frombuffer(file.getvalue(), np.uint8)


def adam7(pixels):
    """An interlaced PNG file, which Pillow does not write."""
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(
            ">I", zlib.crc32(kind + body))

    rows = b""
    for y, x, dy, dx in [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2),
                         (0, 1, 2, 2), (1, 0, 2, 1)]:
        for row in pixels[y::dy, x::dx]:
            rows += b"\0" + row.tobytes() if row.size else b""
    height, width, _ = pixels.shape
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 1)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + \
        chunk(b"IEND", b"")
    return np.frombuffer(data, np.uint8)


def image_file_cases():
    picture = Image.fromarray(smooth(19, 27))
    gray = picture.convert("L")
    alpha = Image.fromarray(smooth(19, 27, 4), "RGBA")
    deep = Image.fromarray(np.arange(19 * 27, dtype=np.uint16).reshape(19, 27) * 127)
    files = {
        "jpeg_rgb": encoded(picture, format="JPEG", quality=90),
        "jpeg_progressive": encoded(picture, format="JPEG", quality=90, progressive=True),
        "jpeg_gray": encoded(gray, format="JPEG", quality=90),
        "jpeg_cmyk": encoded(picture.convert("CMYK"), format="JPEG", quality=90),
        "png_rgb": encoded(picture, format="PNG"),
        "png_rgba": encoded(alpha, format="PNG"),
        "png_gray": encoded(gray, format="PNG"),
        "png_gray_alpha": encoded(alpha.convert("LA"), format="PNG"),
        "png_palette": encoded(picture.quantize(16), format="PNG"),
        "png_bits": encoded(gray.convert("1"), format="PNG"),
        "png_16": encoded(deep, format="PNG"),
        "png_interlaced": adam7(smooth(19, 27)),
    }
    for name, file in files.items():
        image = Image.open(io.BytesIO(file.tobytes()))
        tensors[f"{name}/file"] = file
        if name == "png_16":  # Pillow clips these; libpng scales by 255 / 65535
            scaled = (np.asarray(deep).astype(np.int64) * 255 + 32767) // 65535
            image = Image.fromarray(scaled.astype(np.uint8))
        tensors[f"{name}/rgb"] = planes(image.convert("RGB"))
    tensors["png_rgb/gray"] = planes(Image.open(io.BytesIO(files["png_rgb"].tobytes())).convert("L"))
    tensors["png_rgba/unchanged"] = planes(alpha)
    tensors["png_gray_alpha/unchanged"] = planes(alpha.convert("LA"))


def luma(image):
    return 0.2989 * image[0] + 0.587 * image[1] + 0.114 * image[2]


def adjusted(image, white, change):
    return np.clip(change(image.astype(np.float64)), 0, white).astype(image.dtype)


def turned(image, turns):
    result = np.empty(image.shape)
    for y, x in np.ndindex(*image.shape[1:]):
        h, s, v = colorsys.rgb_to_hsv(*image[:, y, x])
        result[:, y, x] = colorsys.hsv_to_rgb((h + turns) % 1.0, s, v)
    return result


def color_cases():
    noise = random.integers(0, 256, (3, 9, 11), dtype=np.uint8)
    noise[:, 0, 0] = 77  # a gray
    for kind, image, white in [("u8", noise, 255), ("f32", noise.astype(np.float32) / 255, 1)]:
        def grays(x, kind=kind):
            return np.trunc(luma(x)) if kind == "u8" else luma(x)

        tensors[f"color_{kind}/image"] = image
        for factor in (0.5, 1.7):
            tensors[f"color_{kind}/brightness_{factor}"] = adjusted(
                image, white, lambda x: factor * x)
            tensors[f"color_{kind}/contrast_{factor}"] = adjusted(
                image, white, lambda x: factor * x + (1 - factor) * grays(x).mean())
            tensors[f"color_{kind}/saturation_{factor}"] = adjusted(
                image, white, lambda x: factor * x + (1 - factor) * grays(x))
        for turns in (-0.4, 0.1):
            hues = turned(image / white, turns)
            tensors[f"color_{kind}/hue_{turns}"] = (
                (hues * 255.999).astype(np.uint8) if kind == "u8" else hues.astype(np.float32))


resize_cases()
image_file_cases()
color_cases()
save_file(tensors, pathlib.Path(__file__).with_suffix(".safetensors"))
