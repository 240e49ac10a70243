#include "benchmarks/scaler.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "reference/bucketing/gradient_lists.hpp"
#include "reference/comm/errors.hpp"
#include "reference/comm/half.hpp"
#include "reference/scaler/found_inf.hpp"
#include "reference/scaler/unscale.hpp"

namespace plumbline::bench {
namespace {

using comm::Communicator;
using comm::DType;

// ---- agreement ----

// Tensor ranks are the smallest part, as nodes have few.
int tensor_ranks(int world) {
  for (int size = 2; size < world; ++size)
    if (world % size == 0) return size;
  return world;
}

// One found-inf flag a gradient, each in memory of its own as scalers keep them.
class Agreement : public Operation {
 public:
  Agreement(Communicator& world, std::size_t flags)
      : flags_(flags, std::vector<float>(1)), tensor_(tensor_ranks(world.size())), rank_(world.rank()) {
    const scaler::ModelGroups lists = scaler::model_groups(tensor_, world.size() / tensor_, 1);
    const auto mine = [&](const scaler::RankLists& all) {
      return world.create_group(*std::ranges::find_if(
          all, [&](const std::vector<int>& ranks) { return std::ranges::count(ranks, world.rank()) > 0; }));
    };
    model_ = mine(lists.model);
    tensor_group_ = mine(lists.tensor);
    pipeline_group_ = mine(lists.pipeline);
  }
  // Every third flag is found by one rank, another for each.
  std::optional<bool> check() override {
    for (std::size_t i = 0; i < flags_.size(); ++i)
      flags_[i][0] =
          i % 3 == 0 && static_cast<int>(i % static_cast<std::size_t>(model_->size())) == rank_ ? 1.0F : 0.0F;
    run();
    bool right = true;
    for (std::size_t i = 0; i < flags_.size(); ++i) {
      right = right && flags_[i][0] == (is_found(i) ? 1.0F : 0.0F);
      flags_[i][0] = 0;
    }
    return right;
  }
  [[nodiscard]] std::int64_t bytes() const override { return static_cast<std::int64_t>(4 * flags_.size()); }
  [[nodiscard]] std::map<std::string, double> derived() const override {
    return {{"flags", static_cast<double>(flags_.size())},
            {"collectives", static_cast<double>(collectives())},
            {"tensor_ranks", static_cast<double>(tensor_)},
            {"pipeline_ranks", static_cast<double>(model_->size() / tensor_)}};
  }

 protected:
  [[nodiscard]] virtual std::size_t collectives() const = 0;
  [[nodiscard]] virtual bool is_found(std::size_t flag) const { return flag % 3 == 0; }
  std::vector<std::vector<float>> flags_;
  std::unique_ptr<Communicator> model_, tensor_group_, pipeline_group_;

 private:
  int tensor_, rank_;
};

// Flags are copied into one message, agreed on, and copied back.
class Coalesced final : public Agreement {
 public:
  Coalesced(Communicator& world, std::size_t flags, bool by_group) : Agreement(world, flags), message_(flags) {
    groups_ = by_group ? std::vector{tensor_group_.get(), pipeline_group_.get()} : std::vector{model_.get()};
  }
  void run() override {
    for (std::size_t i = 0; i < flags_.size(); ++i) message_[i] = flags_[i][0];
    scaler::agree_on_found_inf(groups_, message_);
    for (std::size_t i = 0; i < flags_.size(); ++i) flags_[i][0] = message_[i];
  }

 protected:
  [[nodiscard]] std::size_t collectives() const override {
    return static_cast<std::size_t>(std::ranges::count_if(groups_, [](Communicator* one) { return one->size() > 1; }));
  }

 private:
  std::vector<Communicator*> groups_;
  std::vector<float> message_;
};

class PerTensor final : public Agreement {
 public:
  PerTensor(Communicator& world, std::size_t flags, bool by_group) : Agreement(world, flags) {
    groups_ = by_group ? std::vector{tensor_group_.get(), pipeline_group_.get()} : std::vector{model_.get()};
  }
  void run() override {
    for (std::vector<float>& flag : flags_) scaler::agree_on_found_inf(groups_, flag);
  }

 protected:
  [[nodiscard]] std::size_t collectives() const override {
    const auto live = std::ranges::count_if(groups_, [](Communicator* one) { return one->size() > 1; });
    return flags_.size() * static_cast<std::size_t>(live);
  }

 private:
  std::vector<Communicator*> groups_;
};

// A rank's flags become one before anybody is asked: enough where one skip is everyone's.
class OneFlag final : public Agreement {
 public:
  using Agreement::Agreement;
  void run() override {
    float any = 0;
    for (const std::vector<float>& flag : flags_) any = std::max(any, flag[0]);
    scaler::agree_on_found_inf(*model_, std::span(&any, 1));
    for (std::vector<float>& flag : flags_) flag[0] = any;
  }

 protected:
  [[nodiscard]] std::size_t collectives() const override { return model_->size() > 1 ? 1 : 0; }
  [[nodiscard]] bool is_found(std::size_t) const override { return true; }
};

void add_agreement(Registry& registry, const std::string& model, std::size_t flags) {
  const std::string prefix = "scaler.agreement." + model + ".";
  const auto add = [&](const char* name, const char* title, auto make) {
    registry.push_back({.name = prefix + name,
                        .title = title,
                        .has_sizes = false,
                        .least_world = 2,
                        .baseline = std::string(name) == "coalesced" ? "" : prefix + "coalesced",
                        .prepare = [flags, make](Communicator& world, const Parameters&) -> std::unique_ptr<Operation> {
                          return make(world, flags);
                        }});
  };
  const auto kind = [](auto tag, bool by_group) {
    return [by_group](Communicator& world, std::size_t count) {
      return std::make_unique<typename decltype(tag)::type>(world, count, by_group);
    };
  };
  add("coalesced", "all flags in one maximum over the model group", kind(std::type_identity<Coalesced>(), false));
  add("one_flag", "one flag for all gradients",
      [](Communicator& world, std::size_t count) { return std::make_unique<OneFlag>(world, count); });
  add("coalesced_by_group", "in one over the tensor, one over the pipeline group",
      kind(std::type_identity<Coalesced>(), true));
  add("per_tensor", "a maximum a gradient over the model group", kind(std::type_identity<PerTensor>(), false));
  add("per_tensor_by_group", "a maximum a gradient over the tensor, then the pipeline group",
      kind(std::type_identity<PerTensor>(), true));
}

// ---- unscaling ----

// Gradients of unequal sizes, some of them short: together they read and write as many bytes as a copy of `bytes` does.
class Unscale final : public Operation {
 public:
  Unscale(std::int64_t bytes, DType from, bool in_place) : from_type_(from), bytes_(bytes) {
    const auto size = static_cast<std::int64_t>(comm::size_of(from));
    std::int64_t left = 2 * bytes / (size + (in_place ? size : 4));  // to an element
    constexpr std::array<std::int64_t, 4> counts{65537, 7, 300000, 1024};
    for (std::size_t i = 0; left > 0; ++i) {
      const std::int64_t count = std::min(left, counts[i % counts.size()]);
      left -= count;
      auto& read = read_.emplace_back(static_cast<std::size_t>(count * size));
      void* written =
          in_place ? static_cast<void*>(read.data()) : written_.emplace_back(static_cast<std::size_t>(count)).data();
      work_.push_back({{read.data(), count, from}, {written, count, in_place ? from : DType::f32}});
    }
  }
  void run() override {
    found_ = scaler::unscale(work_, 1);
    asm volatile("" : : "r"(work_.data()) : "memory");
  }
  [[nodiscard]] std::int64_t bytes() const override { return bytes_; }
  [[nodiscard]] std::map<std::string, double> derived() const override {
    return {{"gradients", static_cast<double>(work_.size())}};
  }
  // The last element of the last gradient is infinite, and all else is 0.
  std::optional<bool> check() override {
    if (work_.empty()) return std::nullopt;
    run();
    if (found_) return false;
    set_last(HUGE_VALF);
    run();
    const bool was_found = found_;
    set_last(0);
    run();
    return was_found && !found_;
  }

 private:
  void set_last(float value) {
    std::vector<std::byte>& last = read_.back();
    const auto narrow = from_type_ == DType::f16 ? comm::to_float16(value).bits : comm::to_bfloat16(value).bits;
    if (from_type_ == DType::f32)
      std::memcpy(last.data() + last.size() - sizeof value, &value, sizeof value);
    else
      std::memcpy(last.data() + last.size() - sizeof narrow, &narrow, sizeof narrow);
  }
  DType from_type_;
  std::int64_t bytes_ = 0;
  std::vector<std::vector<std::byte>> read_;
  std::vector<std::vector<float>> written_;
  std::vector<scaler::Unscaling> work_;
  bool found_ = false;
};

void add_unscale(Registry& registry, const char* name, const char* title, DType from, bool in_place) {
  registry.push_back(
      {.name = std::string("scaler.unscale.") + name,
       .title = title,
       .baseline = "memory.copy",
       .busbw_factor = [](int) { return 1.0; },
       .prepare = [from, in_place](Communicator&, const Parameters& parameters) -> std::unique_ptr<Operation> {
         return std::make_unique<Unscale>(parameters.bytes, from, in_place);
       }});
}

}  // namespace

void add_scaler(Registry& registry) {
  add_agreement(registry, "gpt2", bucketing::gpt2_small_gradients().size());
  add_agreement(registry, "resnet50", bucketing::resnet50_gradients().size());
  add_unscale(registry, "f32", "gradients in place, looked at; bytes as of a copy", DType::f32, true);
  add_unscale(registry, "f16_to_f32", "gradients to masters', looked at; bytes as of a copy", DType::f16, false);
  add_unscale(registry, "bf16_to_f32", "gradients to masters', looked at; bytes as of a copy", DType::bf16, false);
}

}  // namespace plumbline::bench
