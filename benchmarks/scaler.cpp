#include "benchmarks/scaler.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "benchmarks/memory.hpp"
#include "harness/bench/gradient_lists.hpp"
#include "reference/comm/dtype.hpp"
#include "reference/device/fold.hpp"
#include "reference/device/scaled_copies.hpp"
#include "reference/scaler/found_inf.hpp"
#include "reference/scaler/unscale_table.hpp"

namespace plumbline::bench {
namespace {

using comm::Buffer;
using comm::Communicator;
using comm::DType;
using device::FoldTable;
using device::MemorySpace;
using device::ScaledCopy;

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
  Agreement(Communicator& world, const MemorySpace& place, std::size_t flags)
      : count_(flags),
        memory_(place, static_cast<std::int64_t>(flags) * kApart),
        tensor_(tensor_ranks(world.size())),
        rank_(world.rank()) {
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
    for (std::size_t i = 0; i < count_; ++i)
      set(i, i % 3 == 0 && static_cast<int>(i % static_cast<std::size_t>(model_->size())) == rank_ ? 1.0F : 0.0F);
    run();
    bool right = true;
    for (std::size_t i = 0; i < count_; ++i) {
      right = right && memory_.at(place_of(i)) == (is_found(i) ? 1.0F : 0.0F);
      set(i, 0);
    }
    return right;
  }
  [[nodiscard]] std::int64_t bytes() const override { return static_cast<std::int64_t>(4 * count_); }
  [[nodiscard]] std::map<std::string, double> derived() const override {
    return {{"flags", static_cast<double>(count_)},
            {"collectives", static_cast<double>(collectives())},
            {"tensor_ranks", static_cast<double>(tensor_)},
            {"pipeline_ranks", static_cast<double>(model_->size() / tensor_)}};
  }

 protected:
  [[nodiscard]] virtual std::size_t collectives() const = 0;
  [[nodiscard]] virtual bool is_found(std::size_t flag) const { return flag % 3 == 0; }
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] const MemorySpace& place() const { return memory_.place(); }
  [[nodiscard]] Buffer flag(std::size_t i) const { return memory_.part(place_of(i), 1); }
  /// Of the host's memory.
  [[nodiscard]] float& value(std::size_t i) const { return memory_.floats()[static_cast<std::size_t>(place_of(i))]; }
  std::unique_ptr<Communicator> model_, tensor_group_, pipeline_group_;

 private:
  static constexpr std::int64_t kApart = 16;  // elements: a cache line
  static std::int64_t place_of(std::size_t flag) { return static_cast<std::int64_t>(flag) * kApart; }
  void set(std::size_t i, float value) const { memory_.put(place_of(i), 1, std::as_bytes(std::span(&value, 1))); }
  std::size_t count_;
  Memory memory_;
  int tensor_, rank_;
};

// Flags are copied into one message, agreed on, and copied back: on a device in a launch each. Flags stay where they
// are from step to step, and who has them makes the tables of such launches once.
class Coalesced final : public Agreement {
 public:
  Coalesced(Communicator& world, const MemorySpace& at, std::size_t flags, bool by_group)
      : Agreement(world, at, flags), message_(at, static_cast<std::int64_t>(flags)) {
    groups_ = by_group ? std::vector{tensor_group_.get(), pipeline_group_.get()} : std::vector{model_.get()};
    for (std::size_t i = 0; i < flags; ++i) {
      const Buffer in_message = message_.part(static_cast<std::int64_t>(i), 1);
      in_.pairs.push_back({flag(i), in_message});
      out_.pairs.push_back({in_message, flag(i)});
    }
    if (at.is_host()) return;
    for (Copies* copies : {&in_, &out_})
      copies->tables = device::scaled_copy_work(copies->pairs, device::times(1), at.device());
  }
  void run() override {
    copy(in_);
    scaler::agree_on_found_inf(groups_, message_.buffer());
    copy(out_);
  }

 protected:
  [[nodiscard]] std::size_t collectives() const override {
    return static_cast<std::size_t>(std::ranges::count_if(groups_, [](Communicator* one) { return one->size() > 1; }));
  }

 private:
  struct Copies {
    std::vector<ScaledCopy> pairs;
    std::vector<device::ScaledCopyWork> tables;  // of a device
  };
  void copy(const Copies& copies) const {
    place().is_host() ? place().copy(copies.pairs) : place().launch(copies.tables);
  }
  std::vector<Communicator*> groups_;
  Memory message_;
  Copies in_, out_;
};

class PerTensor final : public Agreement {
 public:
  PerTensor(Communicator& world, const MemorySpace& at, std::size_t flags, bool by_group)
      : Agreement(world, at, flags) {
    groups_ = by_group ? std::vector{tensor_group_.get(), pipeline_group_.get()} : std::vector{model_.get()};
  }
  void run() override {
    for (std::size_t i = 0; i < count(); ++i) scaler::agree_on_found_inf(groups_, flag(i));
  }

 protected:
  [[nodiscard]] std::size_t collectives() const override {
    const auto live = std::ranges::count_if(groups_, [](Communicator* one) { return one->size() > 1; });
    return count() * static_cast<std::size_t>(live);
  }

 private:
  std::vector<Communicator*> groups_;
};

// A rank's flags become one before anybody is asked: enough where one skip is everyone's. On a device by as many
// launches each way as their tables take, which are made once, as those of Coalesced.
class OneFlag final : public Agreement {
 public:
  OneFlag(Communicator& world, const MemorySpace& at, std::size_t flags) : Agreement(world, at, flags), any_(at, 1) {
    if (at.is_host()) return;
    // The largest so far is an input of every table but the first.
    for (std::size_t first = 0; first < flags; first += kFolded) {
      FoldTable& gather = gather_.emplace_back(FoldTable{.op = comm::ReduceOp::max, .outputs = 1, .count = 1});
      FoldTable& spread = spread_.emplace_back(FoldTable{.op = comm::ReduceOp::max, .inputs = 1, .count = 1});
      spread.input[0] = gather.output[0] = any_.data();
      if (first > 0) gather.input[gather.inputs++] = any_.data();
      for (std::size_t i = first; i < std::min(first + kFolded, flags); ++i)
        gather.input[gather.inputs++] = spread.output[spread.outputs++] = static_cast<std::byte*>(flag(i).data);
      device::note_shifts(gather);
      device::note_shifts(spread);
    }
  }
  void run() override {
    place().is_host() ? gather_on_host() : fold(gather_);
    scaler::agree_on_found_inf(std::array{model_.get()}, any_.buffer());
    place().is_host() ? spread_on_host() : fold(spread_);
  }

 protected:
  [[nodiscard]] std::size_t collectives() const override { return model_->size() > 1 ? 1 : 0; }
  [[nodiscard]] bool is_found(std::size_t) const override { return true; }

 private:
  void gather_on_host() const {
    float any = 0;
    for (std::size_t i = 0; i < count(); ++i) any = std::max(any, value(i));
    any_.floats()[0] = any;
  }
  void spread_on_host() const {
    for (std::size_t i = 0; i < count(); ++i) value(i) = any_.floats()[0];
  }
  void fold(const std::vector<FoldTable>& tables) const {
    for (const FoldTable& table : tables) place().use().runtime->fold(place().index(), table, place().use().stream);
  }
  static constexpr std::size_t kFolded = device::kMostFolded - 1;
  Memory any_;
  std::vector<FoldTable> gather_, spread_;  // of a device
};

}  // namespace

void add_agreement(Registry& registry, const std::string& model, std::size_t flags) {
  const std::string prefix = "scaler.agreement." + model + ".";
  const auto add = [&](const char* name, const char* title, auto make) {
    registry.push_back(
        {.name = prefix + name,
         .title = title,
         .has_sizes = false,
         .least_world = 2,
         .baseline = std::string(name) == "coalesced" ? "" : prefix + "coalesced",
         .prepare = [flags, make](Communicator& world, const Parameters& parameters) -> std::unique_ptr<Operation> {
           return make(world, parameters.place, flags);
         }});
  };
  const auto kind = [](auto tag, bool by_group) {
    return [by_group](Communicator& world, const MemorySpace& place, std::size_t count) {
      return std::make_unique<typename decltype(tag)::type>(world, place, count, by_group);
    };
  };
  add("coalesced", "all flags in one maximum over the model group", kind(std::type_identity<Coalesced>(), false));
  add("one_flag", "one flag for all gradients", [](Communicator& world, const MemorySpace& place, std::size_t count) {
    return std::make_unique<OneFlag>(world, place, count);
  });
  add("coalesced_by_group", "in one over the tensor, one over the pipeline group",
      kind(std::type_identity<Coalesced>(), true));
  add("per_tensor", "a maximum a gradient over the model group", kind(std::type_identity<PerTensor>(), false));
  add("per_tensor_by_group", "a maximum a gradient over the tensor, then the pipeline group",
      kind(std::type_identity<PerTensor>(), true));
}

// ---- unscaling ----

namespace {

// Gradients of unequal sizes, some of them short: together they read and write as many bytes as a copy of `bytes` does.
class Unscale final : public Operation {
 public:
  Unscale(const MemorySpace& place, std::int64_t bytes, DType from, bool in_place)
      : place_(place), from_type_(from), bytes_(bytes), flag_(place, 1) {
    const auto size = static_cast<std::int64_t>(comm::size_of(from));
    std::int64_t left = 2 * bytes / (size + (in_place ? size : 4));  // to an element
    constexpr std::array<std::int64_t, 4> counts{65537, 7, 300000, 1024};
    for (std::size_t i = 0; left > 0; ++i) {
      const std::int64_t count = std::min(left, counts[i % counts.size()]);
      left -= count;
      const Buffer read = gradients_.emplace_back(place, count, from).buffer();
      work_.push_back({read, in_place ? read : gradients_.emplace_back(place, count).buffer()});
    }
  }
  void run() override {
    if (!place_.is_host()) return run_on_device();
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
    if (finds()) return false;
    set_last(HUGE_VALF);
    const bool was_found = finds();
    set_last(0);
    return was_found && !finds();
  }

 private:
  // The flag is the device's: who steps there looks at it there.
  void run_on_device() const {
    place_.fill(flag_.data(), std::byte{}, flag_.bytes());
    auto* const found = reinterpret_cast<float*>(flag_.data());
    place_.launch(scaler::unscale_work(work_, 1, found, place_.device()));
  }
  bool finds() {
    run();
    return place_.is_host() ? found_ : flag_.at(0) != 0;
  }
  void set_last(float value) const {
    Buffer last = work_.back().to;  // as many as there are to read
    last.data = const_cast<void*>(work_.back().from.data);
    last.dtype = from_type_;
    std::vector<std::byte> element(comm::size_of(from_type_));
    const auto store = [&](auto typed) { std::memcpy(element.data(), &typed, sizeof typed); };
    if (from_type_ == DType::f16) store(comm::to_float16(value));
    if (from_type_ == DType::bf16) store(comm::to_bfloat16(value));
    if (from_type_ == DType::f32) store(value);
    last.data = static_cast<std::byte*>(last.data) + last.bytes() - element.size();
    last.count = 1;
    set_bytes(place_, last, element);
  }
  MemorySpace place_;
  DType from_type_;
  std::int64_t bytes_ = 0;
  std::vector<Memory> gradients_;
  Memory flag_;
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
         return std::make_unique<Unscale>(parameters.place, parameters.bytes, from, in_place);
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
