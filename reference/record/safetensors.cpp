#include "reference/record/safetensors.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <fstream>
#include <optional>
#include <set>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include "reference/comm/errors.hpp"
#include "reference/record/write_failure.hpp"

namespace plumbline::job {

static_assert(std::endian::native == std::endian::little, "the format is little-endian, and nothing here swaps bytes");

namespace {

using nlohmann::json;

constexpr std::string_view kMetadata = "__metadata__";
constexpr std::uint64_t kLengthBytes = 8;
constexpr int kDeepest = 3;  // a list in an entry in the header

constexpr std::array<std::string_view, 7> kNames{"F16", "BF16", "F32", "F64", "I32", "I64", "U8"};

// Parses the header. The library would keep the last of two equal keys and follow any depth; neither is
// wanted.
json parse_header(const std::string& text) {
  std::vector<std::set<std::string>> keys;
  return json::parse(text, [&keys](int depth, json::parse_event_t event, json& parsed) {
    if (depth > kDeepest) throw InvalidArgument("its header nests too deep");
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second)
      throw InvalidArgument(fmt::format("its header has '{}' twice", parsed.get<std::string>()));
    return true;
  });
}

std::optional<std::uint64_t> unsigned_of(const json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  return value.get<std::uint64_t>();
}

// Sizes that any program can multiply without wrapping: each and their product below 2^63.
std::optional<Shape> shape_of(const json& list) {
  if (!list.is_array()) return std::nullopt;
  Shape shape;
  std::int64_t product = 1;
  for (const json& item : list) {
    const auto size = unsigned_of(item);
    if (!size || !std::in_range<std::int64_t>(*size)) return std::nullopt;
    shape.push_back(static_cast<std::int64_t>(*size));
    if (__builtin_mul_overflow(product, shape.back(), &product)) return std::nullopt;
  }
  return shape;
}

// The word for a type: "F32", and what else the format has or will have.
std::optional<std::string> type_of(const json& entry) {
  constexpr std::size_t longest = 16;
  if (!entry.contains("dtype") || !entry["dtype"].is_string()) return std::nullopt;
  const auto& word = entry["dtype"].get_ref<const std::string&>();
  const bool is_word = !word.empty() && word.size() <= longest && std::ranges::all_of(word, [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
  return is_word ? std::optional(word) : std::nullopt;
}

std::optional<comm::DType> dtype_of(const std::string& type) {
  const auto found = std::ranges::find(kNames, type);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<comm::DType>(found - kNames.begin());
}

// Throws InvalidArgument where the bytes are not those of the shape. Nobody reads a type that we do not have.
void check_size(const std::string& name, const TensorInfo& info) {
  std::uint64_t bytes = 0;
  if (!info.dtype) return;
  if (__builtin_mul_overflow(static_cast<std::uint64_t>(info.elements()), comm::size_of(*info.dtype), &bytes) ||
      bytes != info.end - info.begin)
    throw InvalidArgument(fmt::format("tensor '{}' has {} bytes of data; shape {} of {} needs {}", name,
                                      info.end - info.begin, text_of(info.shape), info.type, bytes));
}

TensorInfo info_of(const std::string& name, const json& entry, std::uint64_t data_bytes) {
  const auto refuse = [&name](const std::string& why) {
    throw InvalidArgument(fmt::format("tensor '{}' {}", name, why));
  };
  if (!entry.is_object() || entry.size() != 3 || !entry.contains("shape") || !entry.contains("data_offsets"))
    refuse("must have dtype, shape and data_offsets, and no other field");
  const auto type = type_of(entry);
  if (!type) refuse("must have a word of the format as dtype: F32, I64, BOOL, …");
  TensorInfo info{.type = *type, .dtype = dtype_of(*type), .shape = {}};
  const auto shape = shape_of(entry["shape"]);
  if (!shape) refuse(fmt::format("has shape {}; it must be a list of sizes", entry["shape"].dump()));
  info.shape = *shape;
  const json& offsets = entry["data_offsets"];
  const auto begin = offsets.is_array() && offsets.size() == 2 ? unsigned_of(offsets[0]) : std::nullopt;
  const auto end = begin ? unsigned_of(offsets[1]) : std::nullopt;
  if (!end || *begin > *end || *end > data_bytes)
    refuse(fmt::format("has data_offsets {}; they must be [begin, end] within the {} bytes of data", offsets.dump(),
                       data_bytes));
  info.begin = *begin;
  info.end = *end;
  check_size(name, info);
  return info;
}

struct Header {
  std::map<std::string, TensorInfo, std::less<>> tensors;
  std::map<std::string, std::string, std::less<>> metadata;
};

std::map<std::string, std::string, std::less<>> metadata_of(const json& entry) {
  std::map<std::string, std::string, std::less<>> metadata;
  if (!entry.is_object()) throw InvalidArgument("__metadata__ is not an object of texts");
  for (const auto& [key, text] : entry.items()) {
    if (!text.is_string()) throw InvalidArgument(fmt::format("__metadata__ '{}' is not a text", key));
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

// The data must be covered without gap or overlap.
void check_cover(const Header& header, std::uint64_t data_bytes) {
  std::vector<std::pair<const std::string*, const TensorInfo*>> order;
  for (const auto& [name, info] : header.tensors) order.emplace_back(&name, &info);
  std::ranges::sort(order, [](const auto& a, const auto& b) {
    return std::pair(a.second->begin, a.second->end) < std::pair(b.second->begin, b.second->end);
  });
  std::uint64_t end = 0;
  for (const auto& [name, info] : order) {
    if (info->begin != end)
      throw InvalidArgument(fmt::format("tensor '{}' begins at byte {} of the data, where {} was expected: {}", *name,
                                        info->begin, end, info->begin < end ? "an overlap" : "a gap"));
    end = info->end;
  }
  if (end != data_bytes) throw InvalidArgument(fmt::format("{} bytes of data belong to no tensor", data_bytes - end));
}

// Throws InvalidArgument with what is wrong, to be prefixed with the file.
Header header_of(const std::string& text, std::uint64_t data_bytes) try {
  const json parsed = parse_header(text);
  if (!text.starts_with('{')) throw InvalidArgument("its header is not a JSON object");
  Header header;
  for (const auto& [name, entry] : parsed.items()) {
    if (name == kMetadata)
      header.metadata = metadata_of(entry);
    else
      header.tensors.emplace(name, info_of(name, entry, data_bytes));
  }
  check_cover(header, data_bytes);
  return header;
} catch (const json::parse_error& error) {
  throw InvalidArgument(fmt::format("its header is not JSON, from byte {} on", error.byte));
} catch (const json::exception& error) {  // a number that no type holds
  constexpr std::size_t shown = 120;
  throw InvalidArgument(fmt::format("its header cannot be read: {}", std::string(error.what()).substr(0, shown)));
}

std::string reason(int error) { return std::generic_category().message(error); }

}  // namespace

std::string_view safetensors_name(comm::DType dtype) { return kNames[static_cast<std::size_t>(dtype)]; }

SafetensorsReader::SafetensorsReader(std::filesystem::path file) : file_(std::move(file)) {
  descriptor_ = ::open(file_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a FIFO shall not make us wait
  if (descriptor_ < 0) {
    if (errno == ENOENT) throw NotFound(fmt::format("'{}': no such file", file_.string()));
    throw RuntimeFailure(fmt::format("'{}' cannot be read: {}", file_.string(), reason(errno)));
  }
  try {
    read_header();
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

SafetensorsReader::~SafetensorsReader() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

SafetensorsReader::SafetensorsReader(SafetensorsReader&& other) noexcept
    : file_(std::move(other.file_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      data_offset_(other.data_offset_),
      tensors_(std::move(other.tensors_)),
      metadata_(std::move(other.metadata_)) {}

SafetensorsReader& SafetensorsReader::operator=(SafetensorsReader&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(data_offset_, other.data_offset_);
  std::swap(tensors_, other.tensors_);
  std::swap(metadata_, other.metadata_);
  return *this;
}

const TensorInfo* SafetensorsReader::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

const TensorInfo& SafetensorsReader::at(std::string_view name) const {
  if (const TensorInfo* info = find(name)) return *info;
  throw NotFound(fmt::format("'{}' has no tensor '{}'", file_.string(), name));
}

void SafetensorsReader::read_header() {
  struct stat status{};
  if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) refuse("not a regular file");
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size < kLengthBytes) refuse(fmt::format("{} bytes long; not even the header's length fits", size));
  std::uint64_t length = 0;
  pread_all(std::as_writable_bytes(std::span(&length, 1)), 0);
  if (length > kLargestHeader)
    refuse(fmt::format("its header claims {} bytes; {} is the most", length, kLargestHeader));
  if (length > size - kLengthBytes)
    refuse(fmt::format("its header claims {} bytes, but only {} follow", length, size - kLengthBytes));
  std::string text(length, '\0');
  pread_all(std::as_writable_bytes(std::span(text)), kLengthBytes);
  data_offset_ = kLengthBytes + length;
  try {
    Header header = header_of(text, size - data_offset_);
    tensors_ = std::move(header.tensors);
    metadata_ = std::move(header.metadata);
  } catch (const InvalidArgument& error) {
    refuse(error.what());
  }
}

void SafetensorsReader::read_bytes(std::string_view name, comm::DType dtype, std::int64_t first,
                                   std::span<std::byte> out) const {
  const TensorInfo& info = at(name);
  if (info.dtype != dtype)
    refuse(fmt::format("tensor '{}' is {}; it must be {}", name, info.type, safetensors_name(dtype)));
  const std::uint64_t size = comm::size_of(dtype);
  const auto count = static_cast<std::int64_t>(out.size() / size);
  if (first < 0 || first > info.elements() || count > info.elements() - first)
    throw OutOfRange(fmt::format("'{}': elements {} to {} of tensor '{}', which has {}", file_.string(), first,
                                 first + count, name, info.elements()));
  pread_all(out, data_offset_ + info.begin + static_cast<std::uint64_t>(first) * size);
}

void SafetensorsReader::pread_all(std::span<std::byte> out, std::uint64_t offset) const {
  while (!out.empty()) {
    const ssize_t got = ::pread(descriptor_, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw RuntimeFailure(fmt::format("'{}' cannot be read: {}", file_.string(), reason(errno)));
    if (got == 0) refuse("it ends before its data does; was it cut short?");
    out = out.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

void SafetensorsReader::refuse(const std::string& why) const {
  throw InvalidArgument(fmt::format("'{}': {}", file_.string(), why));
}

void SafetensorsWriter::add_bytes(std::string name, comm::DType dtype, Shape shape, std::span<const std::byte> bytes) {
  if (static_cast<std::uint64_t>(elements_of(shape)) * comm::size_of(dtype) != bytes.size())
    throw InvalidArgument(fmt::format("tensor '{}' has {} bytes; shape {} of {} is another size", name, bytes.size(),
                                      text_of(shape), safetensors_name(dtype)));
  if (name == kMetadata || !numbers_.emplace(name, entries_.size()).second)
    throw InvalidArgument(fmt::format("a tensor's name '{}' is taken", name));
  entries_.push_back({std::move(name), dtype, std::move(shape), {bytes.begin(), bytes.end()}});
}

// Wide elements first: with a header that ends on a multiple of 8, each tensor is aligned for its type.
std::vector<const SafetensorsWriter::Entry*> SafetensorsWriter::in_file_order() const {
  std::vector<const Entry*> order;
  for (const Entry& entry : entries_) order.push_back(&entry);
  std::ranges::stable_sort(order, std::greater{}, [](const Entry* entry) { return comm::size_of(entry->dtype); });
  return order;
}

std::string SafetensorsWriter::header(const std::vector<const Entry*>& order) const {
  json header = json::object();
  if (!metadata_.empty()) header[kMetadata] = metadata_;
  std::uint64_t offset = 0;
  for (const Entry* entry : order) {
    const std::uint64_t end = offset + entry->bytes.size();
    header[entry->name] = {
        {"dtype", safetensors_name(entry->dtype)}, {"shape", entry->shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

void SafetensorsWriter::write(const std::filesystem::path& file) const {
  const std::vector<const Entry*> order = in_file_order();
  const std::string text = header(order);
  const std::uint64_t length = text.size();
  const std::filesystem::path partial = file.string() + ".partial";
  std::ofstream stream(partial, std::ios::binary | std::ios::trunc);
  const auto put = [&stream](const void* data, std::size_t bytes) {
    stream.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
  };
  put(&length, sizeof length);
  put(text.data(), text.size());
  for (const Entry* entry : order) put(entry->bytes.data(), entry->bytes.size());
  stream.close();
  std::error_code error;
  if (stream) std::filesystem::rename(partial, file, error);
  if (!stream || error) {
    std::filesystem::remove(partial, error);
    throw WriteFailure(
        fmt::format("'{}' cannot be written; is its folder there, and room on the disk?", file.string()));
  }
}

}  // namespace plumbline::job
