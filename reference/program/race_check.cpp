#include "reference/program/race_check.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/format.h>

namespace plumbline::program {

namespace {

constexpr std::string_view kCoalesce = "coalesce_tensor";

bool is_wait(const Op& op) { return op.type == "c_wait_compute" || op.type == "c_wait_comm"; }

std::string stream_of_ring(RingId ring) { return fmt::format("ring {}", ring); }

// "default" is a name of the default stream.
std::string issued_to(const Op& op) { return op.stream == "default" ? "" : op.stream; }

bool copies(const Op& coalesce) {
  const auto found = coalesce.attributes.find("copy_data");
  const bool* const value = found == coalesce.attributes.end() ? nullptr : std::get_if<bool>(&found->second);
  return value != nullptr && *value;
}

}  // namespace

std::vector<Access> accesses_of(const Op& op) {
  std::vector<Access> accesses;
  if (op.type == "nop" || is_wait(op)) return accesses;
  const auto add = [&](const Slots& slots, bool writes) {
    for (const auto& [slot, names] : slots)
      for (const std::string& name : names) accesses.push_back({name, writes});
  };
  add(op.outputs, true);
  if (op.type != kCoalesce || copies(op)) add(op.inputs, false);
  return accesses;
}

std::string stream_of(const Op& op) {
  if (!is_wait(op) && op.ring && op.on_calculation_stream == false) return stream_of_ring(*op.ring);
  return issued_to(op);
}

bool is_ordered_by_names(const Op& op) { return is_wait(op) || !op.ring || op.on_calculation_stream != false; }

std::optional<StreamWait> wait_of(const Op& op) {
  if (!is_wait(op) || !op.ring) return std::nullopt;
  const std::string ring = stream_of_ring(*op.ring);
  return op.type == "c_wait_compute" ? StreamWait{.waiting = ring, .awaited = issued_to(op)}
                                     : StreamWait{.waiting = issued_to(op), .awaited = ring};
}

namespace {

/// How many ops of each stream are known to have ended. Streams that are not yet there have ended none.
class Clock {
 public:
  [[nodiscard]] int of(std::size_t stream) const { return stream < ended_.size() ? ended_[stream] : 0; }
  void set(std::size_t stream, int count) {
    ended_.resize(std::max(ended_.size(), stream + 1));
    ended_[stream] = count;
  }
  void join(const Clock& other) {
    ended_.resize(std::max(ended_.size(), other.ended_.size()));
    for (std::size_t stream = 0; const int count : other.ended_) {
      ended_[stream] = std::max(ended_[stream], count);
      ++stream;
    }
  }

 private:
  std::vector<int> ended_;
};

/// A touch of a variable: the last one of its stream.
struct Touch {
  int op = 0, count = 0;  // count of its stream; 0 for an op without one
  std::string named;      // as what: the variable, or the fused one that it is part of
};
struct Touches {
  std::vector<Touch> writes, reads;  // by stream
};

class Checker {
 public:
  explicit Checker(const Program& program) : program_(program) {}

  std::vector<Race> check() {
    for (int position = 0; const Op& op : program_.ops) run(op, position++);
    std::ranges::sort(races_, {}, [](const Race& race) { return std::tie(race.second, race.first, race.variable); });
    return std::move(races_);
  }

 private:
  std::size_t number_of_stream(const std::string& stream) {
    const auto [found, is_new] = streams_.try_emplace(stream, clocks_.size());
    if (is_new) clocks_.emplace_back();
    return found->second;
  }

  void run(const Op& op, int position) {
    const std::size_t stream = number_of_stream(stream_of(op));
    Clock now = clocks_[stream];
    if (is_ordered_by_names(op)) wait_for_names(op, now);
    const auto wait = wait_of(op);
    const std::size_t waiting = wait ? number_of_stream(wait->waiting) : stream;
    if (wait) now.join(clocks_[number_of_stream(wait->awaited)]);
    now.set(stream, now.of(stream) + 1);
    clocks_[stream] = now;
    if (wait) clocks_[waiting].join(now);
    if (is_ordered_by_names(op)) leave_names(op, now);
    if (op.type == kCoalesce) share(op);
    for (const Access& access : accesses_of(op)) {
      touch(access.variable, {position, now.of(stream), access.variable}, access.writes, stream, now);
      if (const auto members = members_.find(access.variable); members != members_.end())
        for (const std::string& member : members->second)
          touch(member, {position, now.of(stream), access.variable}, access.writes, stream, now);
    }
  }

  // ---- order by names ----

  struct Named {
    Clock written, read;
  };
  void wait_for_names(const Op& op, Clock& now) {
    const auto wait = [&](const Slots& slots, bool writes) {
      for (const auto& [slot, names] : slots)
        for (const std::string& name : names) {
          const Named& named = named_[name];
          now.join(named.written);
          if (writes) now.join(named.read);
        }
    };
    wait(op.inputs, false);
    wait(op.outputs, true);
  }
  void leave_names(const Op& op, const Clock& now) {
    for (const std::string& name : names_in(op.inputs)) named_[name].read.join(now);
    for (const std::string& name : names_in(op.outputs)) named_[name].written.join(now);
  }

  // ---- memory ----

  void share(const Op& op) {
    const auto members = op.outputs.find("Output"), fused = op.outputs.find("FusedOutput");
    if (members == op.outputs.end() || fused == op.outputs.end() || fused->second.size() != 1) return;
    for (const std::string& member : members->second) {
      if (const auto old = fused_.find(member); old != fused_.end()) std::erase(members_[old->second], member);
      fused_[member] = fused->second.front();
      members_[fused->second.front()].push_back(member);
    }
  }

  void touch(const std::string& variable, const Touch& touch, bool writes, std::size_t stream, const Clock& now) {
    Touches& before = touches_[variable];
    compare(variable, before.writes, true, touch, writes, now);
    if (writes) compare(variable, before.reads, false, touch, writes, now);
    std::vector<Touch>& mine = writes ? before.writes : before.reads;
    mine.resize(std::max(mine.size(), stream + 1));
    mine[stream] = touch;
  }

  void compare(const std::string& variable, const std::vector<Touch>& earlier, bool earlier_writes, const Touch& touch,
               bool writes, const Clock& now) {
    for (std::size_t stream = 0; const Touch& first : earlier) {
      if (first.count <= now.of(stream++)) continue;  // so it is for all of the op's own stream
      // Two ops that name one fused variable race for it, and not once more for each part.
      if (first.named == touch.named && touch.named != variable) continue;
      report(variable, first, earlier_writes, touch, writes);
    }
  }

  [[nodiscard]] std::string words_of(const Touch& touch, bool writes, const std::string& variable) const {
    const Op& op = program_.ops[static_cast<std::size_t>(touch.op)];
    const std::string stream = stream_of(op);
    return fmt::format("op {} ({}, {}) {} {}", touch.op, op.type, stream.empty() ? "the default stream" : stream,
                       writes ? "writes" : "reads",
                       touch.named == variable ? "it" : touch.named + ", which it is part of");
  }

  void report(const std::string& variable, const Touch& first, bool first_writes, const Touch& second,
              bool second_writes) {
    // What is read and written is reported once, and the end of the list has all of this op.
    for (auto race = races_.rbegin(); race != races_.rend() && race->second == second.op; ++race)
      if (race->variable == variable && race->first == first.op) return;
    races_.push_back(
        {.variable = variable,
         .first = first.op,
         .second = second.op,
         .why = fmt::format("{}, {}, and neither waits for the other", words_of(first, first_writes, variable),
                            words_of(second, second_writes, variable))});
  }

  const Program& program_;
  std::map<std::string, std::size_t> streams_;
  std::vector<Clock> clocks_;                              // of streams: what their next op starts after
  std::map<std::string, Named, std::less<>> named_;        // what the executor knows
  std::map<std::string, Touches, std::less<>> touches_;    // what happens to memory
  std::map<std::string, std::string, std::less<>> fused_;  // member -> what it is part of
  std::map<std::string, std::vector<std::string>, std::less<>> members_;
  std::vector<Race> races_;
};

}  // namespace

std::vector<Race> find_races(const Program& program) { return Checker(program).check(); }

}  // namespace plumbline::program
