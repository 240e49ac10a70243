// reference/record/safetensors.hpp: named tensors in a file.
//
// Model   8 bytes: length N of the header, little-endian. N bytes of JSON: {"name": {"dtype", "shape",
//         "data_offsets": [begin, end]}, …, "__metadata__": {text: text}}. Then the data, little-endian,
//         row-major; offsets count from there, and the tensors cover it without gap or overlap.
// Reading The header is read and checked at once; data on request, by copies, so that a file which
//         someone cuts short meanwhile is an error and nothing worse. Any number of threads may read from one
//         reader. Of types that no element of ours has (BOOL, F8_E4M3, …) only name, shape and place are kept.
// Errors  InvalidArgument: a file that is not of this form, with its name and what is wrong. NotFound,
//         RuntimeFailure.
// Source  github.com/huggingface/safetensors, README, section Format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reference/comm/dtype.hpp"
#include "reference/record/run_spec.hpp"

namespace plumbline::job {

using comm::kDTypeOf;

/// The format's word for a type: "F16", "BF16", "F32", "F64", "I32", "I64", "U8".
[[nodiscard]] std::string_view safetensors_name(comm::DType dtype);

struct TensorInfo {
  std::string type;                  // the format's word: "F32", "BOOL"
  std::optional<comm::DType> dtype;  // the same; nothing where no element of ours is of that type
  Shape shape;
  std::uint64_t begin = 0;  // bytes from the start of the data
  std::uint64_t end = 0;
  [[nodiscard]] std::int64_t elements() const { return elements_of(shape); }
};

class SafetensorsReader {
 public:
  static constexpr std::uint64_t kLargestHeader = 100'000'000;  // bytes

  /// Opens a file and checks all of its header.
  explicit SafetensorsReader(std::filesystem::path file);
  ~SafetensorsReader();
  SafetensorsReader(SafetensorsReader&& other) noexcept;
  SafetensorsReader& operator=(SafetensorsReader&& other) noexcept;

  [[nodiscard]] const std::filesystem::path& file() const { return file_; }
  [[nodiscard]] const std::map<std::string, TensorInfo, std::less<>>& tensors() const { return tensors_; }
  [[nodiscard]] const std::map<std::string, std::string, std::less<>>& metadata() const { return metadata_; }
  /// The tensor of that name, or nullptr.
  [[nodiscard]] const TensorInfo* find(std::string_view name) const;

  /// All elements of a tensor. Throws NotFound for an unknown name, InvalidArgument for another dtype.
  template <class T>
  [[nodiscard]] std::vector<T> read(std::string_view name) const {
    std::vector<T> values(static_cast<std::size_t>(at(name).elements()));
    read_part(name, 0, std::span<T>(values));
    return values;
  }
  /// Elements first .. first+out.size()-1. Throws as read(), and OutOfRange.
  template <class T>
  void read_part(std::string_view name, std::int64_t first, std::span<T> out) const {
    read_bytes(name, kDTypeOf<T>, first, std::as_writable_bytes(out));
  }

 private:
  [[nodiscard]] const TensorInfo& at(std::string_view name) const;
  void read_header();
  void read_bytes(std::string_view name, comm::DType dtype, std::int64_t first, std::span<std::byte> out) const;
  void pread_all(std::span<std::byte> out, std::uint64_t offset) const;
  [[noreturn]] void refuse(const std::string& why) const;

  std::filesystem::path file_;
  int descriptor_ = -1;
  std::uint64_t data_offset_ = 0;  // in the file
  std::map<std::string, TensorInfo, std::less<>> tensors_;
  std::map<std::string, std::string, std::less<>> metadata_;
};

/// Collects tensors and writes them as one file.
class SafetensorsWriter {
 public:
  /// Copies `values`, the elements of `shape`. Throws InvalidArgument for a name used twice or another number
  /// of elements.
  template <class T>
  void add(std::string name, Shape shape, std::span<const T> values) {
    add_bytes(std::move(name), kDTypeOf<T>, std::move(shape), std::as_bytes(values));
  }
  void metadata(std::string key, std::string value) { metadata_[std::move(key)] = std::move(value); }
  /// Writes all, through a file beside it that takes its name when it is complete. Throws RuntimeFailure.
  void write(const std::filesystem::path& file) const;

 private:
  struct Entry {
    std::string name;
    comm::DType dtype;
    Shape shape;
    std::vector<std::byte> bytes;
  };
  void add_bytes(std::string name, comm::DType dtype, Shape shape, std::span<const std::byte> bytes);
  [[nodiscard]] std::vector<const Entry*> in_file_order() const;
  [[nodiscard]] std::string header(const std::vector<const Entry*>& order) const;

  std::vector<Entry> entries_;
  std::map<std::string, std::size_t, std::less<>> numbers_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace plumbline::job
