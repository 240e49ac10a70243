#include "conformance/pass/evaluate.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "reference/support/fnv1a.hpp"

namespace plumbline::conformance {

using nlohmann::json;

namespace {

// A number in [0.5, 1.5) of a text.
double weight_of(const std::string& text) {
  std::uint64_t hash = comm::Fnv1a().add(text).value();
  hash ^= hash >> 29;
  return 0.5 + static_cast<double>(hash % 1000003) / 1000003;
}

using Ranks = std::vector<double>;

class Machine {
 public:
  Machine(const json& program, const json& rings) : rings_(rings) {
    for (const json& ranks : rings)
      for (const json& rank : ranks) world_ = std::max(world_, rank.get<std::size_t>() + 1);
    for (const json& variable : program.at("vars")) {
      const std::string name = variable.at("name");
      const bool persists = variable.value("persistable", false);
      if (persists) persistent_.push_back(name);
      Ranks& value = values_[name];
      for (std::size_t rank = 0; rank < world_; ++rank)
        value.push_back(weight_of(persists ? name : name + "#" + std::to_string(rank)));
    }
    for (const json& op : program.at("ops")) run(op);
  }

  [[nodiscard]] Persistent persistent() const {
    Persistent result;
    for (const std::string& name : persistent_) result[name] = values_.at(name);
    return result;
  }

 private:
  static bool is(const json& op, std::initializer_list<const char*> types) {
    return std::ranges::any_of(types, [&](const char* type) { return op.at("type") == type; });
  }

  void run(const json& op) {
    const json& attributes = op.at("attrs");
    if (is(op, {"nop", "c_wait_compute", "c_wait_comm", "send_v2"})) return;
    if (op.at("type") == "coalesce_tensor") return coalesce(op);
    if (is(op, {"all_reduce", "reduce", "c_allreduce_sum", "c_allreduce_avg"})) return reduce(op);
    if (is(op, {"fill_constant", "fill_any_like"})) return write(op, Ranks(world_, attributes.at("value")));
    if (op.at("type") == "scale") return scale(op, attributes.at("scale"));
    if ((attributes.value("op_role", 0) & 2) != 0 && op.at("inputs").contains("Param")) return update(op);
    if (op.at("type").get<std::string>().ends_with("_grad")) return differentiate(op);
    write_all(op, [&](const std::string&) { return true; }, Ranks(world_, 1));
  }

  // What was a part of another one is none of it any more.
  void coalesce(const json& op) {
    const std::string fused = op.at("outputs").at("FusedOutput").at(0);
    members_[fused].clear();
    for (const json& name : op.at("outputs").at("Output")) {
      values_.at(name) = Ranks(world_, std::numeric_limits<double>::quiet_NaN());
      for (auto& [whole, members] : members_) std::erase(members, name.get<std::string>());
      members_[fused].push_back(name);
    }
  }

  // A fused variable's members, or the variable itself.
  [[nodiscard]] std::vector<std::string> parts(const std::string& name) const {
    const auto found = members_.find(name);
    return found == members_.end() ? std::vector{name} : found->second;
  }

  static std::string only(const json& slots) { return slots.begin().value().at(0); }

  void reduce(const json& op) {
    const json& ranks = rings_.at(std::to_string(op.at("attrs").at("ring_id").get<int>()));
    const bool averages = op.at("attrs").value("reduce_type", "sum") == "avg" || op.at("type") == "c_allreduce_avg";
    const auto from = parts(only(op.at("inputs"))), to = parts(only(op.at("outputs")));
    for (std::size_t i = 0; i < from.size() && i < to.size(); ++i) {
      double sum = 0;
      for (const json& rank : ranks) sum += values_.at(from[i]).at(rank.get<std::size_t>());
      Ranks& result = values_.at(to[i]);
      // One to a single rank leaves the others as they were, which no group may depend on.
      for (const json& rank : ranks)
        if (op.at("type") != "reduce" || rank == ranks.at(0))
          result.at(rank.get<std::size_t>()) = averages ? sum / static_cast<double>(ranks.size()) : sum;
    }
  }

  void scale(const json& op, double factor) {
    const auto from = parts(only(op.at("inputs"))), to = parts(only(op.at("outputs")));
    for (std::size_t i = 0; i < from.size() && i < to.size(); ++i)
      for (std::size_t rank = 0; rank < world_; ++rank) values_.at(to[i])[rank] = values_.at(from[i])[rank] * factor;
  }

  void update(const json& op) {
    const json& parameters = op.at("outputs").at("ParamOut");
    const json& gradients = op.at("inputs").at("Grad");
    const double factor = op.at("attrs").value("rescale_grad", 1.0);
    for (std::size_t rank = 0; rank < world_; ++rank) {
      double step = 0;
      for (const json& gradient : gradients) step += factor * values_.at(gradient)[rank];
      for (const json& parameter : parameters) values_.at(parameter)[rank] -= step;
    }
  }

  // Products of what is known and what is linear in the gradients.
  void differentiate(const json& op) {
    const auto is_gradient = [](const std::string& slot) { return slot.ends_with("@GRAD") || slot.starts_with("DD"); };
    const bool knows_nothing = std::ranges::all_of(
        op.at("inputs").items(), [&](const auto& slot) { return is_gradient(slot.key()) || slot.value().empty(); });
    const Ranks known = weighted(op, [&](const std::string& slot) { return !is_gradient(slot); });
    write_all(op, is_gradient, knows_nothing ? Ranks(world_, 1) : known);
  }

  template <class Use>
  Ranks weighted(const json& op, const Use& use) {
    Ranks sum(world_, 0);
    for (const auto& [slot, names] : op.at("inputs").items())
      for (std::size_t i = 0; use(slot) && i < names.size(); ++i)
        for (const std::string& part : parts(names[i]))
          for (std::size_t rank = 0; rank < world_; ++rank)
            sum[rank] +=
                weight_of(op.at("type").get<std::string>() + slot + std::to_string(i)) * values_.at(part)[rank];
    return sum;
  }

  template <class Use>
  void write_all(const json& op, const Use& use, const Ranks& factor) {
    Ranks sum = weighted(op, use);
    for (std::size_t rank = 0; rank < world_; ++rank) sum[rank] *= factor[rank];
    write(op, sum);
  }

  // Each output another multiple.
  void write(const json& op, const Ranks& value) {
    for (const auto& [slot, names] : op.at("outputs").items())
      for (std::size_t i = 0; i < names.size(); ++i)
        for (std::size_t rank = 0; rank < world_; ++rank)
          values_.at(names[i])[rank] = value[rank] * weight_of(slot + std::to_string(i));
  }

  const json& rings_;
  std::size_t world_ = 1;
  std::map<std::string, Ranks> values_;
  std::map<std::string, std::vector<std::string>> members_;
  std::vector<std::string> persistent_;
};

}  // namespace

Persistent evaluate(const json& program, const json& rings) { return Machine(program, rings).persistent(); }

std::string difference(const Persistent& before, const Persistent& after) {
  constexpr double kRounding = 1e-5;
  for (const auto& [name, ranks] : before) {
    if (!after.contains(name)) return fmt::format("'{}' is gone", name);
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      const double expected = ranks[rank], got = after.at(name).at(rank);
      if (!(std::abs(expected - got) <= kRounding * std::max(1.0, std::abs(expected))))
        return fmt::format("'{}' is {} on rank {}, and was {}", name, got, rank, expected);
    }
  }
  return {};
}

}  // namespace plumbline::conformance
