// Where each parameter lies in a padded buffer, and which gradients share a flat one.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "conformance/bucketing/bucketing_checks.hpp"
#include "conformance/bucketing/question.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/recorded.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;
using suite::Door;

namespace {

const char* const kLayout = "bucketing.layout";
const char* const kFlatten = "bucketing.flatten";
const char* const kBuffers = "bucketing.buffers";

// ---- layouts ----

struct LayoutQuestion {
  std::vector<std::int64_t> numel;
  std::int64_t size = 0;  // of buckets, in elements; 0: one bucket
  int ranks = 0;          // of the distributed optimizer; 0: there is none
  bool bandwidth = false;
  std::vector<int> embedding;
  [[nodiscard]] json args() const {
    json args{{"numel", numel}};
    args["bucket_size_elements"] = size > 0 ? json(size) : json();
    if (ranks > 0)
      args.update({{"data_parallel_world_size", ranks},
                   {"pad_buckets_for_high_nccl_busbw", bandwidth},
                   {"shared_embedding", embedding}});
    return args;
  }
  [[nodiscard]] bool is_embedding(std::size_t parameter) const {
    return std::ranges::find(embedding, static_cast<int>(parameter)) != embedding.end();
  }
};

struct Span {
  std::int64_t begin = 0, end = 0;
};

struct Layout {
  std::vector<Span> parameters;
  std::vector<std::size_t> bucket;
  std::vector<Span> buckets;
  std::vector<std::int64_t> unpadded;
  // The parameters of a bucket, as they lie.
  [[nodiscard]] std::vector<std::size_t> in(std::size_t number) const {
    std::vector<std::size_t> mine;
    for (std::size_t i = 0; i < bucket.size(); ++i)
      if (bucket[i] == number) mine.push_back(i);
    std::ranges::sort(mine, std::greater());
    return mine;
  }
};

using JudgeLayout = std::string (*)(const LayoutQuestion& question, const Layout& got);

// Views have their sizes, are inside the bucket that they say, and share nothing; buckets follow each other.
std::string disjoint_views(const LayoutQuestion& question, const Layout& got) {
  if (got.parameters.size() != question.numel.size())
    return fmt::format("{} places for {} parameters", got.parameters.size(), question.numel.size());
  if (got.unpadded.size() != got.buckets.size())
    return fmt::format("{} buckets, {} sizes of them", got.buckets.size(), got.unpadded.size());
  std::int64_t end = 0;
  for (const Span& bucket : got.buckets) {
    if (bucket.begin != end || bucket.end < bucket.begin)
      return fmt::format("a bucket is from {} to {}, the one before ends at {}", bucket.begin, bucket.end, end);
    end = bucket.end;
  }
  std::vector<std::size_t> order(got.parameters.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Span& view = got.parameters[i];
    if (view.end - view.begin != question.numel[i])
      return fmt::format("parameter {} of {} elements is from {} to {}", i, question.numel[i], view.begin, view.end);
    if (got.bucket[i] >= got.buckets.size())
      return fmt::format("parameter {} is in bucket {} of {}", i, got.bucket[i], got.buckets.size());
    const Span& bucket = got.buckets[got.bucket[i]];
    if (view.begin < bucket.begin || view.end > bucket.end)
      return fmt::format("parameter {} from {} to {} is not inside bucket {}", i, view.begin, view.end, got.bucket[i]);
  }
  std::ranges::sort(order, {},
                    [&](std::size_t i) { return std::pair(got.parameters[i].begin, got.parameters[i].end); });
  for (std::size_t i = 1; i < order.size(); ++i)
    if (got.parameters[order[i]].begin < got.parameters[order[i - 1]].end)
      return fmt::format("parameters {} and {} overlap at {}", order[i - 1], order[i], got.parameters[order[i]].begin);
  return {};
}

std::string last_parameter_first(const LayoutQuestion&, const Layout& got) {
  for (std::size_t i = 1; i < got.parameters.size(); ++i)
    if (got.parameters[i].begin > got.parameters[i - 1].begin || got.bucket[i] > got.bucket[i - 1])
      return fmt::format("parameter {} lies after parameter {}", i, i - 1);
  return {};
}

std::string aligned_starts(const LayoutQuestion& question, const Layout& got) {
  const std::int64_t multiple = question.ranks > 0 ? 64 : 1;
  for (std::size_t bucket = 0; bucket < got.buckets.size(); ++bucket) {
    std::int64_t end = got.buckets[bucket].begin;
    for (const std::size_t i : got.in(bucket)) {
      const std::int64_t begin = got.parameters[i].begin;
      if (begin % multiple != 0) return fmt::format("parameter {} starts at {}, no multiple of {}", i, begin, multiple);
      if (begin - end >= multiple) return fmt::format("elements {} to {} belong to no gradient", end, begin);
      end = got.parameters[i].end;
    }
  }
  return {};
}

// The padding goes by the ranks that the bucket is really dealt to, and is no longer than that takes.
std::string padded_ends(const LayoutQuestion& question, const Layout& got) {
  std::int64_t multiple = question.ranks > 0 ? std::lcm(std::int64_t{question.ranks}, std::int64_t{128}) : 1;
  if (question.bandwidth) multiple = std::lcm(multiple, std::int64_t{65536});
  for (std::size_t i = 0; i < got.buckets.size(); ++i) {
    const Span& bucket = got.buckets[i];
    const std::int64_t length = bucket.end - bucket.begin;
    if (bucket.end % multiple != 0)
      return fmt::format("bucket {} ends at {}, no multiple of {}", i, bucket.end, multiple);
    if (length - got.unpadded[i] >= multiple || length < got.unpadded[i])
      return fmt::format("bucket {} of {} elements has {} without padding to {}", i, length, got.unpadded[i], multiple);
    // Padding before a shared embedding, which a bucket is closed for, counts as the bucket's.
    const auto members = got.in(i);
    std::int64_t used = members.empty() ? 0 : got.parameters[members.back()].end;
    const auto next = i + 1 < got.buckets.size() ? got.in(i + 1) : std::vector<std::size_t>();
    const bool next_is_own = !next.empty() && question.is_embedding(next.front());
    const bool is_own = !members.empty() && question.is_embedding(members.front());
    const bool is_full = question.size > 0 && used - bucket.begin >= question.size;
    if (next_is_own && !is_own && !is_full) used = (used + 63) / 64 * 64;
    if (got.unpadded[i] != used - bucket.begin)
      return fmt::format("bucket {} is said to have {} elements without padding, it has {}", i, got.unpadded[i],
                         used - bucket.begin);
  }
  return {};
}

std::string buckets_close_on_reaching(const LayoutQuestion& question, const Layout& got) {
  for (std::size_t bucket = 0; bucket < got.buckets.size(); ++bucket) {
    const auto members = got.in(bucket);
    if (members.empty()) return fmt::format("bucket {} is empty", bucket);
    const std::int64_t begin = got.buckets[bucket].begin;
    const bool is_last = bucket + 1 == got.buckets.size();
    const bool is_own = question.is_embedding(members.front());
    const auto next = is_last ? std::vector<std::size_t>() : got.in(bucket + 1);
    const bool next_is_own = !next.empty() && question.is_embedding(next.front());
    if (question.size == 0 && !is_last && !is_own && !next_is_own)
      return fmt::format("bucket {} was closed, and no size was given", bucket);
    if (question.size == 0) continue;
    for (std::size_t i = 0; i + 1 < members.size(); ++i)
      if (got.parameters[members[i]].end - begin >= question.size)
        return fmt::format("bucket {} had {} elements with parameter {}, and goes on", bucket,
                           got.parameters[members[i]].end - begin, members[i]);
    if (!is_last && !is_own && !next_is_own && got.parameters[members.back()].end - begin < question.size)
      return fmt::format("bucket {} ends with {} of {} elements", bucket, got.parameters[members.back()].end - begin,
                         question.size);
  }
  return {};
}

std::string embedding_alone(const LayoutQuestion& question, const Layout& got) {
  for (const int parameter : question.embedding)
    if (const auto mine = got.in(got.bucket[static_cast<std::size_t>(parameter)]); mine.size() > 1)
      return fmt::format("the shared embedding {} is in a bucket with [{}]", parameter, fmt::join(mine, ","));
  return {};
}

Layout layout_of(const json& result) {
  Layout layout;
  for (const json& one : result.at("param_index")) {
    layout.parameters.push_back({one.at(0), one.at(1)});
    layout.bucket.push_back(one.at(2).get<std::size_t>());
  }
  for (const json& one : result.at("bucket_indices")) layout.buckets.push_back({one.at(0), one.at(1)});
  layout.unpadded = result.at("per_bucket_numel_unpadded").get<std::vector<std::int64_t>>();
  return layout;
}

LayoutQuestion draw_layout(const std::string& kind, Random& random) {
  LayoutQuestion question;
  if (kind == "multiples")
    return {.numel = {128, 256, 128, 512}, .size = 384, .ranks = 2, .bandwidth = false, .embedding = {}};
  for (int left = random.between(1, 12); left > 0; --left)
    question.numel.push_back(random.between(0, 3) == 0 ? random.between(1, 3) : random.between(1, 700));
  question.size = random.one_of(std::vector<std::int64_t>{0, 1, 64, 500, 1500});
  if (kind == "plain") return question;
  question.ranks = random.one_of(std::vector<int>{1, 2, 3, 5, 6, 8, 12});
  question.bandwidth = kind == "bandwidth";
  if (kind == "embedding")
    for (int left = random.between(1, 2); left > 0; --left)
      question.embedding.push_back(random.between(0, static_cast<int>(question.numel.size()) - 1));
  return question;
}

std::vector<LayoutQuestion> smaller_layouts(const LayoutQuestion& question) {
  std::vector<LayoutQuestion> list;
  for (std::size_t i = 0; question.numel.size() > 1 && i < question.numel.size(); ++i) {
    LayoutQuestion less = question;
    less.numel.erase(less.numel.begin() + static_cast<std::ptrdiff_t>(i));
    std::erase(less.embedding, static_cast<int>(i));
    for (int& other : less.embedding) other -= other > static_cast<int>(i);
    list.push_back(less);
  }
  for (std::size_t i = 0; i < question.numel.size(); ++i)
    if (question.numel[i] > 1) list.push_back(question), list.back().numel[i] /= 2;
  return list;
}

template <JudgeLayout... judges>
void judge_layout(Context& context) {
  const std::string& kind = context.parameters().text("buffer");
  const Property<LayoutQuestion> property{
      .draw = [&](Random& random) { return draw_layout(kind, random); },
      .problem =
          [&](const LayoutQuestion& question) {
            return problem_of(context.adapter(), kLayout, question.args(), [&](const json& result) -> std::string {
              const Layout got = layout_of(result);
              for (const JudgeLayout one : {disjoint_views, judges...})
                if (std::string problem = one(question, got); !problem.empty()) return problem;
              return {};
            });
          },
      .smaller = smaller_layouts,
      .words = [](const LayoutQuestion& question) { return question.args().dump(); }};
  constexpr int trials = 120;
  report_words(search(property, context.seed(), kind == "multiples" ? 1 : trials));
}

// As many elements as there may be, in the last place and in the first.
void largest_buffers(Context& context) {
  constexpr std::int64_t most = std::int64_t{1} << 53;
  const json sizes = context.parameters().text("large") == "first" ? json{most - 1, 1} : json{0, most};
  const json places = context.parameters().text("large") == "first" ? json{{1, most, 0}, {0, 1, 0}}
                                                                    : json{{most, most, 0}, {0, most, 0}};
  report_words(problem_of(context.adapter(), kLayout, {{"numel", sizes}}, [&](const json& result) {
    return first_difference({{"param_index", places}, {"bucket_indices", {{0, most}}}}, result);
  }));
}

// A buffer of more elements than 31 bits hold.
void large_buffers(Context& context) {
  const std::int64_t size = std::int64_t{1} << context.parameters().number("bits");
  report_words(problem_of(
      context.adapter(), kLayout,
      {{"numel", {size, size + 1, 5}}, {"bucket_size_elements", size}, {"data_parallel_world_size", 3}},
      [&](const json& result) {
        const std::int64_t first =
            (size + 64 + 1 + 383) / 384 * 384;  // 5 and size + 1 elements, to a multiple of 3 x 128
        return first_difference({{"param_index", {{first, first + size, 1}, {64, size + 65, 0}, {0, 5, 0}}}}, result);
      }));
}

void megatron_recorded(Context& context) {
  const std::string& kind = context.parameters().text("kind");
  const json record = recorded("bucketing", "megatron");
  for (const json& one : record.at("cases")) {
    if (one.at("kind") != kind) continue;
    json args{{"convention", "megatron"}};
    for (const char* field : {"numel", "bucket_size_elements", "data_parallel_world_size",
                              "pad_buckets_for_high_nccl_busbw", "shared_embedding"})
      if (one.contains(field)) args[field] = one[field];
    json expected = json::object();
    for (const char* field : {"param_index", "bucket_indices", "per_bucket_numel_unpadded"})
      expected[field] = one.at(field);
    const std::string problem = problem_of(context.adapter(), kLayout, args,
                                           [&](const json& result) { return first_difference(expected, result); });
    if (!problem.empty()) report_words(args.dump().substr(0, 240) + ": " + problem);
  }
}

// ---- several buffers ----

struct ParameterKind {
  std::string dtype;
  bool expert = false;
  bool operator==(const ParameterKind&) const = default;
};

struct BuffersQuestion {
  LayoutQuestion layout;  // of all parameters
  std::vector<ParameterKind> kinds = {};
  int expert_ranks = 0;  // 0: not given
  bool in_f32 = false;
  [[nodiscard]] json args(const std::string& convention) const {
    json args = layout.args();
    args["convention"] = convention;
    for (const char* list : {"dtype", "expert"}) args[list] = json::array();
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      args["dtype"].push_back(kinds[i].dtype);
      if (kinds[i].expert) args["expert"].push_back(i);
    }
    args["grad_reduce_in_fp32"] = in_f32;
    if (expert_ranks > 0) args["expert_data_parallel_world_size"] = expert_ranks;
    return args;
  }
  // What is asked of the buffer of these parameters.
  [[nodiscard]] LayoutQuestion of(const std::vector<int>& members) const {
    LayoutQuestion mine = layout;
    mine.numel.clear();
    mine.embedding.clear();
    for (std::size_t i = 0; i < members.size(); ++i) {
      const auto member = static_cast<std::size_t>(members[i]);
      mine.numel.push_back(layout.numel[member]);
      if (layout.is_embedding(member)) mine.embedding.push_back(static_cast<int>(i));
    }
    if (kinds[static_cast<std::size_t>(members.front())].expert && expert_ranks > 0) mine.ranks = expert_ranks;
    return mine;
  }
};

// Every parameter goes into the first buffer of its kind, in registration order.
std::string buffers_by_kind(const BuffersQuestion& question, const json& buffers) {
  std::vector<ParameterKind> kinds;
  std::vector<std::vector<int>> members;
  for (std::size_t i = 0; i < question.kinds.size(); ++i) {
    auto found = static_cast<std::size_t>(std::ranges::find(kinds, question.kinds[i]) - kinds.begin());
    if (found == kinds.size()) {
      kinds.push_back(question.kinds[i]);
      members.emplace_back();
    }
    members[found].push_back(static_cast<int>(i));
  }
  if (buffers.size() != kinds.size()) return fmt::format("{} buffers of {} kinds", buffers.size(), kinds.size());
  for (std::size_t i = 0; i < kinds.size(); ++i)
    if (std::string words = first_difference({{"dtype", kinds[i].dtype},
                                              {"grad_dtype", question.in_f32 ? "f32" : kinds[i].dtype},
                                              {"expert", kinds[i].expert},
                                              {"params", members[i]}},
                                             buffers[i], fmt::format("buffers[{}]", i));
        !words.empty())
      return words;
  return {};
}

std::string buffers_laid_out(const BuffersQuestion& question, const json& buffers) {
  std::vector<bool> seen(question.kinds.size());
  for (const json& buffer : buffers) {
    const auto members = buffer.at("params").get<std::vector<int>>();
    if (members.empty()) return "a buffer is empty";
    for (const int member : members) seen.at(static_cast<std::size_t>(member)) = true;
    const LayoutQuestion mine = question.of(members);
    const Layout got = layout_of(buffer);
    for (const JudgeLayout one : {disjoint_views, last_parameter_first, aligned_starts, padded_ends,
                                  buckets_close_on_reaching, embedding_alone})
      if (std::string problem = one(mine, got); !problem.empty())
        return fmt::format("buffer of [{}]: {}", fmt::join(members, ","), problem);
  }
  return std::ranges::find(seen, false) == seen.end() ? "" : "a parameter is in no buffer";
}

BuffersQuestion draw_buffers(const std::string& kind, Random& random) {
  BuffersQuestion question{.layout = draw_layout(kind == "plain" ? "plain" : "embedding", random)};
  for (std::size_t i = 0; i < question.layout.numel.size(); ++i)
    question.kinds.push_back({.dtype = random.one_of(std::vector<std::string>{"bf16", "f32", "f16"}),
                              .expert = kind != "no_experts" && random.between(0, 2) == 0});
  if (kind == "experts") question.expert_ranks = random.one_of(std::vector<int>{1, 2, 3, 5, 7});
  question.in_f32 = random.between(0, 1) == 1;
  return question;
}

using JudgeBuffers = std::string (*)(const BuffersQuestion& question, const json& buffers);

template <JudgeBuffers judge>
void judge_buffers(Context& context, const std::string& convention) {
  Random random(context.seed());
  for (int trial = 0; trial < 60; ++trial) {
    const BuffersQuestion question = draw_buffers(context.parameters().text("parameters"), random);
    const json args = question.args(convention);
    const std::string problem = problem_of(context.adapter(), kBuffers, args,
                                           [&](const json& result) { return judge(question, result.at("buffers")); });
    if (!problem.empty()) return report_words(args.dump() + ": " + problem);
  }
}

void megatron_buffers_recorded(Context& context) {
  const bool sharded = context.parameters().text("optimizer") == "distributed";
  const json record = recorded("bucketing", "megatron_buffers");
  for (const json& one : record.at("cases")) {
    if (one.contains("data_parallel_world_size") != sharded) continue;
    json args{{"convention", "megatron"}};
    for (const auto& [name, value] : one.items())
      if (name != "kind" && name != "buffers") args[name] = value;
    report_words(problem_of(context.adapter(), kBuffers, args, [&](const json& result) {
      return first_difference({{"buffers", one.at("buffers")}}, result);
    }));
  }
}

// ---- flat buffers ----

json flat_args(const BucketQuestion& question, const std::vector<int>& groups) {
  json args{{"numel", question.numel}, {"dtype", question.dtype}, {"device", question.device}, {"group", groups}};
  if (!question.sparse.empty()) args["expect_sparse_gradient"] = question.sparse;
  if (!question.indices.empty()) args["order"] = question.indices;
  return args;
}

struct Flat {
  BucketQuestion question;  // sizes and types by gradient; indices: the order
  std::vector<int> groups;
  [[nodiscard]] std::string key(int gradient) const {
    const auto i = static_cast<std::size_t>(gradient);
    return fmt::format("{} {} {}", groups[i], question.dtype[i], question.device[i]);
  }
};

Flat draw_flat(const std::string& kind, Random& random) {
  const std::string drawn = kind == "one_group" ? "types" : kind == "groups_of_one_type" ? "one_type" : kind;
  Flat flat{.question = draw_question(drawn, random), .groups = {}};
  for (std::size_t i = 0; i < flat.question.size(); ++i)
    flat.groups.push_back(kind == "one_group" || kind == "equal" ? 0 : random.between(0, 2));
  return flat;
}

using Buckets = std::vector<std::vector<int>>;

std::string once_each(const Flat& flat, const Buckets& buckets) {
  std::vector<int> all;
  for (const auto& bucket : buckets) {
    if (bucket.empty()) return "a buffer is empty";
    all.insert(all.end(), bucket.begin(), bucket.end());
  }
  std::ranges::sort(all);
  for (std::size_t i = 0; i < std::max(all.size(), flat.question.size()); ++i)
    if (i >= all.size() || i >= flat.question.size() || all[i] != static_cast<int>(i))
      return fmt::format("not every one of {} gradients is in one bucket", flat.question.size());
  return {};
}

// One buffer of each group, type and device, no more and no fewer; sparse ones alone.
std::string one_buffer_a_kind(const Flat& flat, const Buckets& buckets) {
  std::vector<std::string> seen;
  for (const auto& bucket : buckets) {
    const auto is_sparse = [&](int gradient) {
      return !flat.question.sparse.empty() && flat.question.sparse[static_cast<std::size_t>(gradient)];
    };
    if (bucket.size() > 1 && std::ranges::any_of(bucket, is_sparse))
      return fmt::format("a sparse gradient is in [{}]", fmt::join(bucket, ","));
    for (const int gradient : bucket)
      if (flat.key(gradient) != flat.key(bucket.front()))
        return fmt::format("[{}] has {} and {}", fmt::join(bucket, ","), flat.key(bucket.front()), flat.key(gradient));
    if (is_sparse(bucket.front())) continue;
    if (std::ranges::find(seen, flat.key(bucket.front())) != seen.end())
      return fmt::format("{} has two buffers", flat.key(bucket.front()));
    seen.push_back(flat.key(bucket.front()));
  }
  return {};
}

// Members as they become ready, and buffers by their last one.
std::string as_completed(const Flat& flat, const Buckets& buckets) {
  const auto positions = flat.question.positions();
  std::size_t last = 0;
  for (const auto& bucket : buckets) {
    if (!std::ranges::is_sorted(bucket, {},
                                [&](int gradient) { return positions[static_cast<std::size_t>(gradient)]; }))
      return fmt::format("[{}] is not in the order of readiness", fmt::join(bucket, ","));
    const std::size_t now = positions[static_cast<std::size_t>(bucket.back())];
    if (now < last)
      return fmt::format("buffer [{}] is launched after one that is complete later", fmt::join(bucket, ","));
    last = now;
  }
  return {};
}

using JudgeFlat = std::string (*)(const Flat&, const Buckets&);

template <JudgeFlat... judges>
void judge_flat(Context& context) {
  Random random(context.seed());
  constexpr int trials = 120;
  for (int trial = 0; trial < trials; ++trial) {
    const Flat flat = draw_flat(context.parameters().text("gradients"), random);
    const json args = flat_args(flat.question, flat.groups);
    const std::string problem = problem_of(context.adapter(), kFlatten, args, [&](const json& result) -> std::string {
      const auto buckets = result.at("buckets").get<Buckets>();
      for (const JudgeFlat one : {once_each, judges...})
        if (std::string words = one(flat, buckets); !words.empty()) return words;
      return {};
    });
    if (!problem.empty()) return report_words(args.dump() + ": " + problem);
  }
}

// What each buffer is said to be: its group and how many elements it has.
std::string described(const Flat& flat, const Buckets& buckets, const json& result) {
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    std::int64_t elements = 0;
    for (const int gradient : buckets[i]) elements += flat.question.numel[static_cast<std::size_t>(gradient)];
    if (result.at("groups").at(i) != flat.groups[static_cast<std::size_t>(buckets[i].front())])
      return fmt::format("buffer {} is said to be of group {}", i, result.at("groups").at(i).dump());
    if (result.at("numel").at(i) != elements)
      return fmt::format("buffer {} has {} elements, said to have {}", i, elements, result.at("numel").at(i).dump());
  }
  return {};
}

void buffers_described(Context& context) {
  Random random(context.seed());
  for (int trial = 0; trial < 40; ++trial) {
    const Flat flat = draw_flat(context.parameters().text("gradients"), random);
    report_words(
        problem_of(context.adapter(), kFlatten, flat_args(flat.question, flat.groups), [&](const json& result) {
          const auto buckets = result.at("buckets").get<Buckets>();
          const std::string problem = once_each(flat, buckets);
          return problem.empty() ? described(flat, buckets, result) : problem;
        }));
  }
}

void unfused(Context& context) {
  const bool ordered = context.parameters().text("order") == "ready";
  json args{{"numel", {3, 1, 4, 1, 5}}, {"dtype", "f32"}, {"fused", false}};
  if (ordered) args["order"] = {4, 2, 3, 0, 1};
  const json expected = ordered ? json{{4}, {2}, {3}, {0}, {1}} : json{{0}, {1}, {2}, {3}, {4}};
  report_words(problem_of(context.adapter(), kFlatten, args,
                          [&](const json& result) { return first_difference({{"buckets", expected}}, result); }));
}

// Two loops, one in the other, as the handlers have: over groups as they come, and in each over types as they come.
void colossalai(Context& context) {
  Random random(context.seed());
  for (int trial = 0; trial < 60; ++trial) {
    const bool several = context.parameters().text("groups") == "several";
    BucketQuestion question = draw_question("types", random);
    std::ranges::fill(question.device, "cpu");
    std::vector<int> groups;
    for (std::size_t i = 0; i < question.size(); ++i) groups.push_back(several ? random.between(0, 2) * 7 : 3);
    json buckets = json::array();
    std::vector<int> seen_groups;
    for (const int group : groups) {
      if (std::ranges::find(seen_groups, group) != seen_groups.end()) continue;
      seen_groups.push_back(group);
      std::vector<std::string> seen_types;
      for (std::size_t i = 0; i < question.size(); ++i) {
        if (groups[i] != group || std::ranges::find(seen_types, question.dtype[i]) != seen_types.end()) continue;
        seen_types.push_back(question.dtype[i]);
        json& bucket = buckets.emplace_back(json::array());
        for (std::size_t j = i; j < question.size(); ++j)
          if (groups[j] == group && question.dtype[j] == question.dtype[i]) bucket.push_back(j);
      }
    }
    json args = flat_args(question, groups);
    args["convention"] = "colossalai";
    report_words(problem_of(context.adapter(), kFlatten, args,
                            [&](const json& result) { return first_difference({{"buckets", buckets}}, result); }));
  }
}

// ---- refusals ----

const std::vector<BadQuestion>& bad_buffers() {
  static const std::vector<BadQuestion> list{
      {"negative_size", kLayout, {{"numel", {4, -4}}}},
      {"negative_bucket", kLayout, {{"numel", {4}}, {"bucket_size_elements", -1}}},
      {"no_ranks", kLayout, {{"numel", {4}}, {"data_parallel_world_size", 0}}},
      {"padding_for_nobody", kLayout, {{"numel", {4}}, {"pad_buckets_for_high_nccl_busbw", true}}},
      {"embedding_that_is_none", kLayout, {{"numel", {4}}, {"data_parallel_world_size", 2}, {"shared_embedding", {1}}}},
      {"too_many_elements", kLayout, {{"numel", {std::int64_t{1} << 62, std::int64_t{1} << 62}}}},
      {"negative_size_first", kLayout, {{"numel", {-4, 4}}}},
      {"ranks_below_0", kLayout, {{"numel", {4}}, {"data_parallel_world_size", -1}}},
      {"embedding_below_0", kLayout, {{"numel", {4}}, {"data_parallel_world_size", 2}, {"shared_embedding", {0, -1}}}},
      {"embedding_for_nobody", kLayout, {{"numel", {4}}, {"shared_embedding", {0}}}},
      {"one_element_too_many", kLayout, {{"numel", {1, std::int64_t{1} << 53}}}},
      {"too_many_with_padding",
       kLayout,
       {{"numel", {(std::int64_t{1} << 53) - 63, 1}}, {"data_parallel_world_size", 1}}},
      {"expert_that_is_none", kBuffers, {{"numel", {4, 4}}, {"dtype", "bf16"}, {"expert", {2}}}},
      {"expert_below_0", kBuffers, {{"numel", {4, 4}}, {"dtype", "bf16"}, {"expert", {-1}}}},
      {"too_few_types", kBuffers, {{"numel", {4, 4}}, {"dtype", {"bf16"}}}},
      {"replicas_of_experts_alone",
       kBuffers,
       {{"numel", {4, 4}}, {"dtype", "bf16"}, {"expert", {1}}, {"expert_data_parallel_world_size", 2}}},
      {"no_replicas_of_experts",
       kBuffers,
       {{"numel", {4, 4}},
        {"dtype", "bf16"},
        {"expert", {1}},
        {"data_parallel_world_size", 4},
        {"expert_data_parallel_world_size", 0}}},
      {"too_many_groups", kFlatten, {{"numel", {1, 1}}, {"dtype", "f32"}, {"group", {0, 0, 0}}}},
      {"order_too_short", kFlatten, {{"numel", {1, 1}}, {"dtype", "f32"}, {"order", {0}}}},
      {"order_with_a_stranger", kFlatten, {{"numel", {1, 1}}, {"dtype", "f32"}, {"order", {0, 2}}}},
      {"order_below_0", kFlatten, {{"numel", {1, 1}}, {"dtype", "f32"}, {"order", {0, -1}}}},
      {"unfused_order_too_short", kFlatten, {{"numel", {1, 1}}, {"dtype", "f32"}, {"order", {0}}, {"fused", false}}},
      {"unfused_negative", kFlatten, {{"numel", {1, -1}}, {"dtype", "f32"}, {"fused", false}}},
      {"overflow_of_sum", kFlatten, {{"numel", {std::int64_t{1} << 60, std::int64_t{1} << 60}}, {"dtype", "f32"}}},
      {"negative_gradient", kFlatten, {{"numel", {-1}}, {"dtype", "f32"}}},
      {"negative_group", kFlatten, {{"numel", {1}}, {"dtype", "f32"}, {"group", {-1}}}},
      {"too_few_groups", kFlatten, {{"numel", {1, 1}}, {"dtype", "f32"}, {"group", {0}}}},
      {"order_with_a_repetition", kFlatten, {{"numel", {1, 1}}, {"dtype", "f32"}, {"order", {0, 0}}}},
      {"overflow", kFlatten, {{"numel", {std::int64_t{1} << 62}}, {"dtype", "f32"}}}};
  return list;
}

void refuses_bad_buffers(Context& context) { report_words(problem_of_bad_question(context, bad_buffers())); }

}  // namespace

void add_bucket_buffer_checks(suite::Suite& suite) {
  const suite::Axis buffers{"buffer", {"multiples", "plain", "padded", "bandwidth", "embedding"}};
  const suite::Axis gradients{"gradients", {"equal", "one_group", "groups_of_one_type", "types", "ordered"}};
  const std::vector<std::string> any_type{"bf16", "c64", "f16", "f32", "f64"}, one_type{"f32"}, here{"cpu"},
      both{"cpu", "cuda:1"};
  const std::vector<AskedOption> of_drawn{
      {kFlatten,
       "dtype",
       {},
       "gradients",
       {{"equal", one_type},
        {"one_group", any_type},
        {"groups_of_one_type", one_type},
        {"types", any_type},
        {"ordered", any_type}}},
      {kFlatten,
       "device",
       {},
       "gradients",
       {{"equal", here}, {"one_group", both}, {"groups_of_one_type", here}, {"types", both}, {"ordered", both}}}};
  const std::vector<AskedOption> plain{{kFlatten, "dtype", one_type}, {kFlatten, "device", here}};
  const auto add = [&](const char* name, const char* requirement, const char* operation, suite::Axis axis,
                       void (*body)(Context&), const char* convention = "plumbline",
                       std::vector<AskedOption> options = {}) {
    suite.add({.id = std::string("bucketing.") + name,
               .verifies = {requirement},
               .door = Door::adapter,
               .axes = {std::move(axis)},
               .operations = {operation},
               .convention = convention,
               .options = options_of(std::move(options)),
               .body = body});
  };
  add("layout.disjoint_views", "BUCKET-015@5ac6", kLayout, buffers, judge_layout<>);
  add("layout.last_parameter_first", "BUCKET-016@7875", kLayout, buffers, judge_layout<last_parameter_first>);
  add("layout.aligned_starts", "BUCKET-017@8964", kLayout, buffers, judge_layout<aligned_starts>);
  add("layout.padded_ends", "BUCKET-018@ed67", kLayout, buffers, judge_layout<padded_ends>);
  add("layout.closes_on_reaching", "BUCKET-019@f6b8", kLayout, buffers, judge_layout<buckets_close_on_reaching>);
  add("layout.embedding_alone", "BUCKET-020@4ceb", kLayout, {"buffer", {"padded", "embedding"}},
      judge_layout<embedding_alone>);
  add("layout.large", "BUCKET-015@5ac6", kLayout, {"bits", {"20", "33"}}, large_buffers);
  add("layout.largest", "BUCKET-015@5ac6", kLayout, {"large", {"first", "last"}}, largest_buffers);
  add("layout.megatron_recorded", "BUCKET-021@2767", kLayout, {"kind", {"ddp_layout", "distributed_optimizer_layout"}},
      megatron_recorded, "megatron");
  add("layout.bad_arguments", "BUCKET-022@3ed5", kLayout, faults_of(bad_buffers(), {kLayout}), refuses_bad_buffers);
  const std::vector<AskedOption> drawn_types{{kBuffers, "dtype", {"bf16", "f16", "f32"}}};
  const suite::Axis parameters{"parameters", {"plain", "no_experts", "experts"}};
  for (const std::string convention : {"plumbline", "megatron"}) {
    const auto add_buffers = [&](const char* name, const char* requirement,
                                 void (*body)(Context&, const std::string& convention)) {
      suite.add({.id = fmt::format("bucketing.buffers.{}{}", convention == "megatron" ? "megatron_" : "", name),
                 .verifies = {requirement},
                 .door = Door::adapter,
                 .axes = {parameters},
                 .operations = {kBuffers},
                 .convention = convention,
                 .options = options_of(drawn_types),
                 .body = [body, convention](Context& context) { body(context, convention); }});
    };
    add_buffers("by_kind", "BUCKET-226@e696", judge_buffers<buffers_by_kind>);
    add_buffers("laid_out", "BUCKET-227@a24e", judge_buffers<buffers_laid_out>);
  }
  add("buffers.megatron_recorded", "BUCKET-228@d228", kBuffers, {"optimizer", {"distributed", "replicated"}},
      megatron_buffers_recorded, "megatron",
      {{kBuffers,
        "dtype",
        {},
        "optimizer",
        {{"distributed", {"bf16", "f16", "f32", "f64"}}, {"replicated", {"bf16", "f32"}}}}});
  add("buffers.bad_arguments", "BUCKET-229@352b", kBuffers, faults_of(bad_buffers(), {kBuffers}), refuses_bad_buffers,
      "plumbline", {{kBuffers, "dtype", {"bf16"}}});
  add("flat.one_buffer_a_kind", "BUCKET-023@5266", kFlatten, gradients, judge_flat<one_buffer_a_kind>, "plumbline",
      of_drawn);
  add("flat.as_completed", "BUCKET-024@6f6c", kFlatten, gradients, judge_flat<as_completed>, "plumbline", of_drawn);
  add("flat.described", "BUCKET-023@5266", kFlatten, gradients, buffers_described, "plumbline", of_drawn);
  add("flat.unfused", "BUCKET-025@e703", kFlatten, {"order", {"registered", "ready"}}, unfused, "plumbline", plain);
  add("flat.colossalai", "BUCKET-026@2e71", kFlatten, {"groups", {"one", "several"}}, colossalai, "colossalai",
      {{kFlatten, "dtype", any_type}, {kFlatten, "device", here}});
  add("flat.bad_arguments", "BUCKET-027@937e", kFlatten, faults_of(bad_buffers(), {kFlatten}), refuses_bad_buffers,
      "plumbline", plain);
}

}  // namespace plumbline::conformance
