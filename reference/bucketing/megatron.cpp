#include <algorithm>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "reference/bucketing/detail/laying_out.hpp"
#include "reference/bucketing/detail/megatron_buffers.hpp"
#include "reference/bucketing/plan.hpp"

namespace plumbline::bucketing {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 53;

std::int64_t padded(std::int64_t elements, std::int64_t multiple) {
  return (elements + multiple - 1) / multiple * multiple;
}

// A buffer that grows from the last parameter to the first.
class Buffer {
 public:
  Buffer(std::span<const std::int64_t> elements, const MegatronOptions& options)
      : elements_(elements), size_(options.bucket_elements), embeddings_(elements.size()) {
    if (size_ && *size_ < 0)
      throw InvalidArgument(fmt::format("buckets of {} elements; they cannot have fewer than 0", *size_));
    if (options.distributed_optimizer) take(*options.distributed_optimizer);
    layout_.parameters.resize(elements.size());
    layout_.bucket.resize(elements.size());
  }

  MegatronLayout fill() {
    for (std::size_t parameter = elements_.size(); parameter-- > 0;) add(parameter);
    if (is_open_) close();
    return std::move(layout_);
  }

 private:
  void take(const DistributedOptimizer& optimizer) {
    parameter_start_ = kMegatronParameterStart;
    bucket_end_ = megatron_bucket_multiple(optimizer);
    for (const int embedding : optimizer.shared_embedding) {
      if (static_cast<std::size_t>(embedding) >= elements_.size())
        throw InvalidArgument(fmt::format("the shared embedding is parameter {} of {}", embedding, elements_.size()));
      embeddings_[static_cast<std::size_t>(embedding)] = true;
    }
  }

  void add(std::size_t parameter) {
    const std::int64_t elements = elements_[parameter];
    if (elements < 0)
      throw InvalidArgument(
          fmt::format("parameter {} has {} elements; it cannot have fewer than 0", parameter, elements));
    at_ = padded(at_, parameter_start_);
    if (embeddings_[parameter] && is_open_) close();
    if (elements > kMostElements - at_)
      throw OutOfRange(fmt::format("the buffer has more than 2^53 elements from parameter {} on: {} + {}", parameter,
                                   at_, elements));
    layout_.parameters[parameter] = {at_, at_ + elements};
    layout_.bucket[parameter] = static_cast<int>(layout_.buckets.size());
    at_ += elements;
    is_open_ = true;
    if (embeddings_[parameter] || (size_ && at_ - begin_ >= *size_)) close();
  }

  void close() {
    layout_.unpadded.push_back(at_ - begin_);
    at_ = padded(at_, bucket_end_);
    layout_.buckets.push_back({begin_, at_});
    begin_ = at_;
    is_open_ = false;
  }

  std::span<const std::int64_t> elements_;
  std::optional<std::int64_t> size_;
  std::vector<bool> embeddings_;
  std::int64_t parameter_start_ = 1, bucket_end_ = 1;  // multiples of these
  std::int64_t at_ = 0;                                // end of what is there
  std::int64_t begin_ = 0;                             // of the bucket that is being filled
  bool is_open_ = false;                               // it has a parameter
  MegatronLayout layout_;
};

// The part of the options that concerns some of the parameters.
MegatronOptions options_for(const MegatronOptions& options, std::span<const int> parameters) {
  MegatronOptions mine = options;
  if (!mine.distributed_optimizer) return mine;
  mine.distributed_optimizer->shared_embedding.clear();
  for (const int embedding : options.distributed_optimizer->shared_embedding)
    if (const auto found = std::ranges::find(parameters, embedding); found != parameters.end())
      mine.distributed_optimizer->shared_embedding.push_back(static_cast<int>(found - parameters.begin()));
  return mine;
}

void require_embeddings(const MegatronOptions& options, std::size_t parameters) {
  if (!options.distributed_optimizer) return;
  for (const int embedding : options.distributed_optimizer->shared_embedding)
    if (static_cast<std::size_t>(embedding) >= parameters)
      throw InvalidArgument(fmt::format("the shared embedding is parameter {} of {}", embedding, parameters));
}

// A buffer's buckets, its parameters being known by these indices.
void append(Plan& plan, const MegatronLayout& layout, std::span<const int> parameters, const Gradient& like,
            const MegatronOptions& options) {
  const std::size_t first = plan.buckets.size();
  for (const Interval& interval : layout.buckets) {
    Bucket bucket = bucket_for(like);
    bucket.elements = interval.end - interval.begin;
    bucket.limit_bytes =
        options.bucket_elements ? bytes_of(*options.bucket_elements, like.dtype, like.components_per_element) : 0;
    plan.buckets.push_back(bucket);
  }
  for (std::size_t i = parameters.size(); i-- > 0;) {
    const auto number = static_cast<std::size_t>(layout.bucket[i]);
    Bucket& bucket = plan.buckets[first + number];
    if (bucket.members++ == 0) bucket.first_member = static_cast<int>(plan.members.size());
    plan.members.push_back({parameters[i], layout.parameters[i].begin - layout.buckets[number].begin});
  }
}

}  // namespace

std::int64_t megatron_bucket_multiple(const DistributedOptimizer& optimizer) {
  if (optimizer.ranks < 1)
    throw InvalidArgument(fmt::format("a group of {} ranks; it must be 1 or more", optimizer.ranks));
  if (optimizer.instances < 1 || optimizer.ranks % optimizer.instances != 0)
    throw InvalidArgument(
        fmt::format("{} ranks in {} instances of the distributed optimizer; each has equally many, 1 or more",
                    optimizer.ranks, optimizer.instances));
  const std::int64_t multiple = std::lcm(std::int64_t{optimizer.ranks / optimizer.instances}, kMegatronBucketEnd);
  return optimizer.pads_for_bandwidth ? std::lcm(multiple, kMegatronBandwidth) : multiple;
}

std::int64_t megatron_default_elements(int ranks) {
  return std::max<std::int64_t>(40'000'000, std::int64_t{1'000'000} * ranks);
}

MegatronLayout megatron_layout(std::span<const std::int64_t> elements, const MegatronOptions& options) {
  return Buffer(elements, options).fill();
}

std::vector<MegatronBuffer> megatron_buffers(std::span<const Gradient> parameters, const MegatronOptions& options,
                                             std::optional<int> expert_ranks) {
  require_embeddings(options, parameters.size());
  std::vector<MegatronBuffer> buffers;
  std::map<std::uint64_t, std::size_t> known;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto [place, is_new] = known.try_emplace(key_of(parameters[i]), buffers.size());
    if (is_new) buffers.emplace_back();
    buffers[place->second].parameters.push_back(static_cast<int>(i));
  }
  for (MegatronBuffer& buffer : buffers) {
    std::vector<std::int64_t> elements;
    for (const int index : buffer.parameters) elements.push_back(parameters[static_cast<std::size_t>(index)].elements);
    MegatronOptions mine = options_for(options, buffer.parameters);
    const bool is_of_experts = parameters[static_cast<std::size_t>(buffer.parameters.front())].group == kExperts;
    if (mine.distributed_optimizer && is_of_experts && expert_ranks) mine.distributed_optimizer->ranks = *expert_ranks;
    buffer.layout = megatron_layout(elements, mine);
  }
  return buffers;
}

Plan plan_as_megatron(std::span<const Gradient> gradients, const MegatronOptions& options) {
  require_gradients(gradients);
  require_embeddings(options, gradients.size());
  std::vector<std::uint64_t> keys;  // from the last parameter on
  std::map<std::uint64_t, std::vector<int>> parameters;
  for (std::size_t i = gradients.size(); i-- > 0;) {
    if (gradients[i].sparse) throw Unsupported(fmt::format("gradient {} is sparse; the buffer holds dense ones", i));
    std::vector<int>& mine = parameters[key_of(gradients[i])];
    if (mine.empty()) keys.push_back(key_of(gradients[i]));
    mine.push_back(static_cast<int>(i));
  }
  Plan plan;
  for (const std::uint64_t key : keys) {
    std::vector<int>& mine = parameters[key];
    std::ranges::reverse(mine);
    std::vector<std::int64_t> elements;
    for (const int index : mine) elements.push_back(gradients[static_cast<std::size_t>(index)].elements);
    append(plan, megatron_layout(elements, options_for(options, mine)), mine,
           gradients[static_cast<std::size_t>(mine.front())], options);
  }
  return plan;
}

}  // namespace plumbline::bucketing
