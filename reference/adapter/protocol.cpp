#include "reference/adapter/protocol.hpp"

#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/support/control_characters.hpp"

namespace plumbline::adapter {
using nlohmann::json;

namespace {

void append_float(std::string& text, double value) {
  if (std::isnan(value)) return void(text += "\"nan\"");
  if (std::isinf(value)) return void(text += value > 0 ? "\"inf\"" : "\"-inf\"");
  std::array<char, 32> digits;
  const char* end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  const std::string_view written(digits.data(), static_cast<std::size_t>(end - digits.data()));
  text += written;
  // Readers take "-0" for the integer 0, which has no sign.
  if (written.find_first_of(".e") == std::string_view::npos) text += ".0";
}

bool is_plain(char c) { return c >= ' ' && c < 0x7f && c != '"' && c != '\\'; }

void append_text(std::string& text, const json& value) {
  const auto& content = value.get_ref<const std::string&>();
  if (std::ranges::all_of(content, is_plain))
    text.append(1, '"').append(content).append(1, '"');
  else
    text += value.dump(-1, ' ', false, json::error_handler_t::replace);
}

void append(std::string& text, const json& value) {
  char separator = 0;
  const auto separate = [&] {
    if (separator != 0) text += separator;
    separator = ',';
  };
  switch (value.type()) {
    case json::value_t::number_float:
      return append_float(text, value.get<double>());
    case json::value_t::string:
      return append_text(text, value);
    case json::value_t::array:
      text += '[';
      for (const json& item : value) separate(), append(text, item);
      text += ']';
      return;
    case json::value_t::object:
      text += '{';
      for (const auto& [name, field] : value.items()) {
        separate();
        append_text(text, name);
        text += ':';
        append(text, field);
      }
      text += '}';
      return;
    default:
      text += value.dump();
  }
}

// The library's message without its "[json.exception.parse_error.101] ".
std::string reason(const json::exception& error) {
  std::string_view text = error.what();
  if (const auto bracket = text.find("] "); bracket != std::string_view::npos) text.remove_prefix(bracket + 2);
  constexpr std::size_t kEnough = 200;
  return printable(text.substr(0, kEnough)) + (text.size() <= kEnough ? "" : "…");
}

// Puts together what the library's parser finds.
class Builder final : public json::json_sax_t {
 public:
  Document document{nullptr};

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // not in JSON
  bool start_object(std::size_t) override { return open(json::object()); }
  bool start_array(std::size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    key_ = std::move(name);
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const json::exception& error) override {
    throw InvalidArgument("the line is not JSON: " + reason(error));
  }

 private:
  bool add(json value) {
    place(std::move(value));
    return true;
  }
  bool open(json container) {
    if (open_.size() == kDeepestNesting)
      throw InvalidArgument(fmt::format("the line nests lists and objects deeper than {}", kDeepestNesting));
    open_.push_back(&place(std::move(container)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }
  json& place(json&& value) {
    if (open_.empty()) return *document = std::move(value);
    if (open_.back()->is_array()) return open_.back()->emplace_back(std::move(value));
    const auto [field, is_new] = open_.back()->emplace(key_, std::move(value));
    if (!is_new) throw InvalidArgument(fmt::format("the line has the key {} twice in an object", excerpt(key_)));
    return *field;
  }

  std::vector<json*> open_;  // the containers that have not ended, from the outermost
  std::string key_;
};

// Leaves an empty value, and frees the items one by one: so no destructor sees a container that holds
// anything.
void dismantle(json& value) {
  if (value.is_array()) {
    auto& items = value.get_ref<json::array_t&>();
    for (; !items.empty(); items.pop_back()) dismantle(items.back());
  } else if (value.is_object()) {
    auto& fields = value.get_ref<json::object_t&>();
    for (; !fields.empty(); fields.erase(fields.begin())) dismantle(fields.begin()->second);
  }
}

}  // namespace

Document::~Document() { dismantle(value_); }

Document decode(std::string_view line) {
  // The library's lexer takes a zero byte for the end of the text.
  if (const auto zero = line.find('\0'); zero != std::string_view::npos)
    throw InvalidArgument(fmt::format("the line is not JSON: byte {} is zero", zero + 1));
  Builder builder;
  json::sax_parse(line, &builder);
  return std::move(builder.document);
}

std::string encode(const json& value) {
  std::string text;
  append(text, value);
  return text;
}

std::string request_line(const json& id, const std::string& op, const json& args) {
  std::string line = fmt::format(R"({{"id":{},"op":{},"args":{}}})", encode(id), encode(op), encode(args));
  if (line.size() > kLongestLine)
    throw InvalidArgument(
        fmt::format("{}: the request has {} bytes, a line may have {}", op, line.size(), kLongestLine));
  return line;
}

std::string result_line(const json& id, const json& result) {
  return fmt::format(R"({{"id":{},"result":{}}})", encode(id), encode(result));
}

std::string error_line(const json& id, std::string_view kind, std::string_view message) {
  return fmt::format(R"({{"id":{},"error":{{"kind":{},"message":{}}}}})", encode(id), encode(kind), encode(message));
}

std::string printable(std::string_view text) {
  return json::parse(encode(without_controls(text, ' '))).get<std::string>();  // encoding replaces what is no UTF-8
}

std::string excerpt(std::string_view text, std::size_t enough) {
  return fmt::format("'{}{}'", printable(text.substr(0, enough)), text.size() <= enough ? "" : "…");
}

std::string describe(const json& value) {
  if (value.is_string()) return excerpt(value.get_ref<const std::string&>());
  if (value.is_array()) return fmt::format("a list of {}", value.size());
  return value.is_object() ? "an object" : encode(value);
}

}  // namespace plumbline::adapter
