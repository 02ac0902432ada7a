#include <csetjmp>
#include <cstddef>
#include <cstdio>  // jpeglib.h wants it first

#include <jpeglib.h>

#include <jerror.h>

#include <algorithm>
#include <array>
#include <string>

#include "core/base/status.h"
#include "horovod_cpp/data/image_file.h"

namespace hvd::data {
namespace {

// libjpeg reports through function pointers, and goes on unless they jump away: no object with a
// destructor may live between a setjmp() and its longjmp().
struct ErrorManager {
  jpeg_error_mgr base;  // first: libjpeg knows this part only
  std::jmp_buf jump;
  std::array<char, JMSG_LENGTH_MAX> message;
};

[[noreturn]] void on_error(j_common_ptr info) {
  auto* manager = reinterpret_cast<ErrorManager*>(info->err);
  (*info->err->format_message)(info, manager->message.data());
  std::longjmp(manager->jump, 1);
}

// Warnings that say nothing about the pixels.
bool is_harmless(int code) {
  constexpr std::array kHarmless = {static_cast<int>(JWRN_ADOBE_XFORM),
                                    static_cast<int>(JWRN_EXTRANEOUS_DATA),
                                    static_cast<int>(JWRN_JFIF_MAJOR)};
  return std::ranges::find(kHarmless, code) != kHarmless.end();
}

// libjpeg only warns of a truncated or corrupt image, and fills it up with gray.
void on_message(j_common_ptr info, int level) {
  if (level < 0 && !is_harmless(info->err->msg_code)) on_error(info);
}

class JpegReader {
 public:
  JpegReader() {
    info_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = on_error;
    errors_.base.emit_message = on_message;
  }
  ~JpegReader() { jpeg_destroy_decompress(&info_); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  // Reads the header: the extents are known then. False: see message().
  bool open(const std::uint8_t* bytes, std::size_t count) {
    if (setjmp(errors_.jump) != 0) return false;
    jpeg_create_decompress(&info_);
    jpeg_mem_src(&info_, bytes, count);
    jpeg_read_header(&info_, TRUE);
    if (info_.num_components == 4) info_.out_color_space = JCS_CMYK;
    jpeg_calc_output_dimensions(&info_);
    return true;
  }
  bool read(std::uint8_t* to) {
    if (setjmp(errors_.jump) != 0) return false;
    jpeg_start_decompress(&info_);  // allocates a progressive image, however large, and clears it
    while (info_.output_scanline < info_.output_height) {
      JSAMPROW row = to + std::size_t{info_.output_scanline} * info_.output_width *
                              static_cast<std::size_t>(info_.output_components);
      jpeg_read_scanlines(&info_, &row, 1);
    }
    jpeg_finish_decompress(&info_);
    return true;
  }

  std::int64_t height() const { return info_.output_height; }
  std::int64_t width() const { return info_.output_width; }
  std::int64_t channels() const { return info_.output_components; }
  // Adobe's programs store inks as what is left of the paper's white.
  bool has_inverted_inks() const { return info_.saw_Adobe_marker != 0; }
  const char* message() const { return errors_.message.data(); }

 private:
  jpeg_decompress_struct info_{};
  ErrorManager errors_{};
};

// Each ink takes its part of the light, black of all of it.
Tensor cmyk_to_rgb(const Tensor& inks, bool inverted) {
  Tensor rgb = Tensor::empty({inks.size(0), inks.size(1), 3}, DType::kU8);
  const auto* from = inks.data<std::uint8_t>();
  auto* to = rgb.data<std::uint8_t>();
  const unsigned flip = inverted ? 0U : 255U;
  for (std::int64_t i = 0; i < inks.size(0) * inks.size(1); ++i, from += 4) {
    for (int c = 0; c < 3; ++c) {
      *to++ = static_cast<std::uint8_t>(((from[c] ^ flip) * (from[3] ^ flip) + 127U) / 255U);
    }
  }
  return rgb;
}

}  // namespace

Tensor decode_jpeg(std::span<const std::uint8_t> bytes, const std::string& name) {
  JpegReader reader;
  const auto fail = [&] {
    throw InvalidArgumentError(name, ": is a broken JPEG file: ", reader.message());
  };
  if (!reader.open(bytes.data(), bytes.size())) fail();
  Tensor pixels = make_pixels(reader.height(), reader.width(), reader.channels(), name);
  if (!reader.read(pixels.data<std::uint8_t>())) fail();
  return pixels.size(2) == 4 ? cmyk_to_rgb(pixels, reader.has_inverted_inks()) : pixels;
}

}  // namespace hvd::data
