#include <png.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstring>
#include <string>

#include "core/base/status.h"
#include "horovod_cpp/data/image_file.h"

namespace hvd::data {
namespace {

// libpng reports errors by a longjmp(): no object with a destructor may live between it and the
// setjmp().
class PngReader {
 public:
  explicit PngReader(std::span<const std::uint8_t> bytes) : left_(bytes) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  // False: see message().
  bool start() {
    if (info_ == nullptr) return false;
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_read_fn(png_, this, on_read);
    png_read_info(png_, info_);
    png_set_expand(png_);  // palettes, fewer than 8 bits, transparent colors
    png_set_scale_16(png_);
    passes_ = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    return true;
  }
  bool read(std::uint8_t* to) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    const std::size_t row_bytes = png_get_rowbytes(png_, info_);
    for (int pass = 0; pass < passes_; ++pass) {
      for (std::size_t y = 0; y < png_get_image_height(png_, info_); ++y) {
        png_read_row(png_, to + y * row_bytes, nullptr);
      }
    }
    png_read_end(png_, nullptr);
    return true;
  }

  std::int64_t height() const { return png_get_image_height(png_, info_); }
  std::int64_t width() const { return png_get_image_width(png_, info_); }
  std::int64_t channels() const { return png_get_channels(png_, info_); }
  const char* message() const { return message_.data(); }

 private:
  [[noreturn]] static void on_error(png_structp png, png_const_charp message) {
    auto* self = static_cast<PngReader*>(png_get_error_ptr(png));
    std::strncpy(self->message_.data(), message, self->message_.size() - 1);
    png_longjmp(png, 1);
  }
  static void on_warning(png_structp, png_const_charp) {}  // of what is not in the pixels
  static void on_read(png_structp png, png_bytep to, std::size_t count) {
    auto* self = static_cast<PngReader*>(png_get_io_ptr(png));
    if (count > self->left_.size()) png_error(png, "the file is truncated");
    std::copy_n(self->left_.begin(), count, to);
    self->left_ = self->left_.subspan(count);
  }

  std::span<const std::uint8_t> left_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  int passes_ = 1;
  std::array<char, 128> message_ = {"no memory for its reader"};
};

}  // namespace

Tensor decode_png(std::span<const std::uint8_t> bytes, const std::string& name) {
  PngReader reader(bytes);
  const auto fail = [&] {
    throw InvalidArgumentError(name, ": is a broken PNG file: ", reader.message());
  };
  if (!reader.start()) fail();
  Tensor pixels = make_pixels(reader.height(), reader.width(), reader.channels(), name);
  if (!reader.read(pixels.data<std::uint8_t>())) fail();
  return pixels;
}

}  // namespace hvd::data
