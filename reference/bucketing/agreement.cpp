#include "reference/bucketing/detail/agreement.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>
#include <unordered_map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/bucketing/detail/laying_out.hpp"
#include "reference/support/fnv1a.hpp"

namespace plumbline::bucketing {
namespace {

// One thing that all ranks have to say the same of: a gradient by its name, or a part of the plan.
struct Line {
  std::string subject, value;
  bool is_gradient = false;
};
using Lines = std::vector<Line>;

// What separates lines and their parts cannot be in a name.
std::string printable(std::string name) {
  std::ranges::replace_if(name, [](unsigned char c) { return c < 0x20; }, ' ');
  return name;
}

// Where the plan has each gradient, in words; of a plan that is wrong, all places.
std::vector<std::string> places_of(const Plan& plan, std::size_t gradients) {
  std::vector<std::string> places(gradients);
  for (std::size_t i = 0; i < plan.buckets.size(); ++i)
    for (const Member& member : plan.members_of(plan.buckets[i]))
      if (static_cast<std::size_t>(member.gradient) < gradients)
        places[static_cast<std::size_t>(member.gradient)] += fmt::format(", in bucket {} from {}", i, member.begin);
  for (std::string& place : places)
    if (place.empty()) place = ", in no bucket";
  return places;
}

std::string members_of(const Plan& plan, const Bucket& bucket) {
  std::string members;
  for (const Member& member : plan.members_of(bucket)) members += fmt::format(" {}@{}", member.gradient, member.begin);
  return members;
}

Lines lines_of(const Plan& plan, std::span<const Gradient> gradients, std::span<const std::string> names,
               std::span<const Shape> shapes) {
  Lines lines;
  lines.reserve(gradients.size() + plan.buckets.size());
  const std::vector<std::string> places = places_of(plan, gradients.size());
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const Gradient& gradient = gradients[i];
    const std::string size = shapes.empty() ? fmt::format("{} elements", gradient.elements)
                                            : fmt::format("shape [{}]", fmt::join(shapes[i], ", "));
    lines.push_back(
        {names.empty() ? fmt::format("gradient {}", i) : printable(names[i]),
         fmt::format("{} of {} on {}, group {}, number {}{}{}", size,
                     type_words(gradient.dtype, gradient.components_per_element), comm::name_of(gradient.device),
                     gradient.group, i, gradient.sparse ? ", sparse" : "", places[i]),
         true});
  }
  for (std::size_t i = 0; i < plan.buckets.size(); ++i) {
    const Bucket& bucket = plan.buckets[i];
    lines.push_back(
        {fmt::format("bucket {}", i),
         fmt::format("{} elements of {} on {}, group {}{}, limit {} bytes, members{}", bucket.elements,
                     type_words(bucket.dtype, bucket.components_per_element), comm::name_of(bucket.device),
                     bucket.group, bucket.sparse ? ", sparse" : "", bucket.limit_bytes, members_of(plan, bucket)),
         false});
  }
  return lines;
}

std::string text_of(const Lines& lines) {
  std::string text;
  for (const Line& line : lines)
    text.append(line.is_gradient ? "g" : "b").append(line.subject).append("\t").append(line.value).append("\n");
  return text;
}

Lines lines_in(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    const std::size_t tabulator = line.find('\t');
    lines.push_back(
        {std::string(line.substr(1, tabulator - 1)), std::string(line.substr(tabulator + 1)), line.front() == 'g'});
    text.remove_prefix(line.size() + 1);
  }
  return lines;
}

// Two of different starts make accidents impossible to meet.
std::int64_t hash(std::string_view text, std::uint64_t start) {
  return static_cast<std::int64_t>(comm::Fnv1a(start).add(text).value());
}

using Fingerprint = std::array<std::int64_t, 3>;  // two hashes, and the length

std::vector<Fingerprint> exchange(comm::Communicator& communicator, const Fingerprint& mine, comm::Timeout timeout) {
  std::vector<Fingerprint> all(static_cast<std::size_t>(communicator.size()));
  const auto numbers = static_cast<std::int64_t>(mine.size());
  communicator.all_gather({mine.data(), numbers, comm::DType::i64},
                          {all.data(), numbers * communicator.size(), comm::DType::i64}, timeout);
  return all;
}

std::vector<Lines> exchange_lines(comm::Communicator& communicator, std::string text,
                                  const std::vector<Fingerprint>& fingerprints, comm::Timeout timeout) {
  std::int64_t longest = 0;
  for (const Fingerprint& one : fingerprints) longest = std::max(longest, one[2]);
  text.resize(static_cast<std::size_t>(longest));
  std::string all(static_cast<std::size_t>(longest) * fingerprints.size(), '\0');
  communicator.all_gather({text.data(), longest, comm::DType::u8},
                          {all.data(), longest * communicator.size(), comm::DType::u8}, timeout);
  std::vector<Lines> ranks;
  for (std::size_t rank = 0; rank < fingerprints.size(); ++rank)
    ranks.push_back(lines_in(std::string_view(all).substr(rank * static_cast<std::size_t>(longest),
                                                          static_cast<std::size_t>(fingerprints[rank][2]))));
  return ranks;
}

// What each rank says of each subject; of a name that a rank has twice, everything.
class Sayings {
 public:
  explicit Sayings(const std::vector<Lines>& ranks) : said_(ranks.size()) {
    for (std::size_t rank = 0; rank < ranks.size(); ++rank)
      for (const Line& line : ranks[rank]) {
        std::string& words = said_[rank][key_of(line)];
        words.append(words.empty() ? "" : "; ").append(line.value);
      }
  }
  [[nodiscard]] bool is_everywhere(const Line& line) const {
    return std::ranges::all_of(said_, [&](const auto& mine) { return mine.contains(key_of(line)); });
  }
  [[nodiscard]] std::vector<Opinion> opinions(const Line& line) const {
    std::vector<Opinion> opinions;
    for (std::size_t rank = 0; rank < said_.size(); ++rank) {
      const auto mine = said_[rank].find(key_of(line));
      const std::string value = mine == said_[rank].end() ? "nothing" : mine->second;
      const auto known = std::ranges::find(opinions, value, &Opinion::value);
      if (known == opinions.end())
        opinions.push_back({{static_cast<int>(rank)}, value});
      else
        known->ranks.push_back(static_cast<int>(rank));
    }
    return opinions;
  }

 private:
  static std::string key_of(const Line& line) { return (line.is_gradient ? "g" : "b") + line.subject; }
  std::vector<std::unordered_map<std::string, std::string>> said_;
};

// A parameter that some rank has not says more than all that differs because of it; a parameter more than a bucket.
PlanDisagreement first_difference(const std::vector<Lines>& ranks) {
  const Sayings sayings(ranks);
  for (const Lines& lines : ranks)
    for (const Line& line : lines)
      if (line.is_gradient && !sayings.is_everywhere(line)) return {line.subject, sayings.opinions(line)};
  for (const Lines& lines : ranks)  // in which gradients, now the same ones, are before buckets
    for (const Line& line : lines)
      if (std::vector<Opinion> opinions = sayings.opinions(line); opinions.size() > 1)
        return {line.subject, std::move(opinions)};
  return {"nothing that has a name", {}};  // as where two texts have one hash: a gradient's number is in its line
}

std::string disagreement(const std::string& subject, const std::vector<Opinion>& opinions) {
  constexpr std::size_t enough = 240;  // of a value
  std::vector<std::string> said;
  for (const Opinion& one : opinions)
    said.push_back(fmt::format("{} {}: {:.{}}{}", one.ranks.size() == 1 ? "rank" : "ranks", fmt::join(one.ranks, " "),
                               one.value, enough, one.value.size() > enough ? "..." : ""));
  return fmt::format("ranks disagree on {}: {}", subject, fmt::join(said, "; "));
}

void require_shape(const Shape& shape, const Gradient& gradient, std::size_t index) {
  std::int64_t elements = 1;
  const bool is_empty = std::ranges::find(shape, 0) != shape.end();
  for (const std::int64_t size : shape) {
    if (size < 0 || (!is_empty && size > std::numeric_limits<std::int64_t>::max() / elements))
      throw InvalidArgument(
          fmt::format("verify_agreement: shapes[{}] is [{}]; sizes are 0 or more", index, fmt::join(shape, ", ")));
    elements = is_empty ? 0 : elements * size;
  }
  if (elements != gradient.elements)
    throw InvalidArgument(fmt::format("verify_agreement: shapes[{}] is [{}]; the gradient has {} elements", index,
                                      fmt::join(shape, ", "), gradient.elements));
}

void require_descriptions(std::span<const Gradient> gradients, std::span<const std::string> names,
                          std::span<const Shape> shapes) {
  if (!names.empty() && names.size() != gradients.size())
    throw InvalidArgument(fmt::format("verify_agreement: {} names for {} gradients", names.size(), gradients.size()));
  if (!shapes.empty() && shapes.size() != gradients.size())
    throw InvalidArgument(fmt::format("verify_agreement: {} shapes for {} gradients", shapes.size(), gradients.size()));
  for (std::size_t i = 0; i < shapes.size(); ++i) require_shape(shapes[i], gradients[i], i);
}

}  // namespace

PlanDisagreement::PlanDisagreement(std::string subject, std::vector<Opinion> opinions)
    : MismatchError(disagreement(subject, opinions)), subject_(std::move(subject)), opinions_(std::move(opinions)) {}

void verify_agreement(comm::Communicator& communicator, const Plan& plan, std::span<const Gradient> gradients,
                      std::span<const std::string> names, std::span<const Shape> shapes, comm::Timeout timeout) {
  require_descriptions(gradients, names, shapes);
  std::string text = text_of(lines_of(plan, gradients, names, shapes));
  constexpr std::uint64_t kStart = comm::Fnv1a::kStart;
  const Fingerprint mine{hash(text, kStart), hash(text, ~kStart), static_cast<std::int64_t>(text.size())};
  const std::vector<Fingerprint> all = exchange(communicator, mine, timeout);
  if (std::ranges::all_of(all, [&](const Fingerprint& one) { return one == all.front(); })) return;
  throw first_difference(exchange_lines(communicator, std::move(text), all, timeout));
}

}  // namespace plumbline::bucketing
