// reference/program/race_check.hpp: does a program touch memory in an order that nothing keeps?
//
// Model   Ops are issued in the program's order to streams; a stream runs its ops one after the other, different
//         streams run at once. Three things order ops of two streams:
//           names   the executor lets an op wait for the last one that wrote what it names, and for those that read
//                   what it writes since. A `nop` touches nothing and exists for its names.
//           waits   c_wait_compute of a ring: that ring's stream waits for the stream that the op is on. c_wait_comm:
//                   the other way round.
//           streams all ops of one.
//         Communication that left the calculation stream (use_calc_stream is false) runs on its ring's own stream,
//         without the executor's knowledge: names do not order it, waits alone do.
//         coalesce_tensor makes its outputs parts of one fused variable. The executor knows names alone: an op that
//         names the fused variable touches all members and is not ordered with those that name a member. That is what
//         dependency ops are for.
// Race    Two ops of different streams that touch the same memory, one of them writing, with neither before the other.
// Method  Vector clocks (Fidge 1988, Mattern 1989) by stream; for each variable the last write and the last read of
//         each stream (Flanagan and Freund, FastTrack, 2009). Of a stream the last op is reported that a later op races
//         with.
// Cost    Linear in the names of all ops, times the number of streams; an op that names a fused variable names its
//         members.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reference/program/program.hpp"

namespace plumbline::program {

struct Race {
  std::string variable;       // the memory; the member where the other op names the fused variable
  int first = 0, second = 0;  // positions in the program, first < second
  std::string why;            // a line: who does what, on which streams
  friend bool operator==(const Race&, const Race&) = default;
};

/// An op touches a variable.
struct Access {
  std::string variable;
  bool writes = false;
  friend bool operator==(const Access&, const Access&) = default;
};
/// What an op touches: what it names, writes first. Dependency ops and waits touch nothing, and coalesce_tensor reads
/// what it makes one only where it copies.
[[nodiscard]] std::vector<Access> accesses_of(const Op& op);

/// The stream that an op runs on: the ring's own, "ring 12", where communication left the calculation stream, else the
/// one that it is issued on; "" is the default one.
[[nodiscard]] std::string stream_of(const Op& op);

/// Whether the executor orders an op by names.
[[nodiscard]] bool is_ordered_by_names(const Op& op);

/// One stream waits for what another one has done so far.
struct StreamWait {
  std::string waiting, awaited;
};
[[nodiscard]] std::optional<StreamWait> wait_of(const Op& op);

/// By the position of the second op, then of the first. Never throws on a bad program: names need not stand for
/// variables.
[[nodiscard]] std::vector<Race> find_races(const Program& program);

}  // namespace plumbline::program
