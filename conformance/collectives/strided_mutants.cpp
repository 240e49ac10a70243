// Faults of calls on rows with gaps between them.
#include <functional>

#include "conformance/collectives/collectives_mutants.hpp"
#include "harness/mutants/faulty.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::mutants {

using comm::Rows;
using comm::StridedCall;

namespace {

bool has_gaps(const comm::ConstBuffer& view, Rows rows) { return !is_contiguous(rows, view.count); }

std::byte* writable(const comm::Buffer& view, Rows rows, std::int64_t index) {
  return const_cast<std::byte*>(address_of(view, rows, index));
}

// As code does that reads the view as if it began a packed buffer (ProcessGroupGloo of torch 2.13).
class InputTakenForPacked final : public Plain<InputTakenForPacked> {
 public:
  using Plain::Plain;

 private:
  void do_run_strided(const StridedCall& call, comm::Timeout timeout) override {
    StridedCall changed = call;
    changed.in = {};
    Plain::do_run_strided(changed, timeout);
  }
};

class LastRowLost final : public Plain<LastRowLost> {
 public:
  using Plain::Plain;

 private:
  void do_run_strided(const StridedCall& call, comm::Timeout timeout) override {
    const comm::Buffer& out = call.call.out;
    if (!call.call.uses_out(rank()) || !has_gaps(out, call.out)) return Plain::do_run_strided(call, timeout);
    comm::Buffer row = out;
    row.data = writable(out, call.out, out.count - call.out.columns);
    const After last = restore(row, 0, call.out.columns);
    Plain::do_run_strided(call, timeout);
    last();
  }
};

// As code does that copies whole rows of the stride.
class WritesTheGaps final : public Plain<WritesTheGaps> {
 public:
  using Plain::Plain;

 private:
  void do_run_strided(const StridedCall& call, comm::Timeout timeout) override {
    Plain::do_run_strided(call, timeout);
    const comm::Buffer& out = call.call.out;
    if (!call.call.uses_out(rank()) || !has_gaps(out, call.out)) return;
    std::byte* const after = writable(out, call.out, call.out.columns - 1) + size_of(out.dtype);  // the first row
    *after ^= std::byte{0xff};
  }
};

// As code does that packs where the views are: the rows move together, and what was there is lost.
class PacksInPlace final : public Plain<PacksInPlace> {
 public:
  using Plain::Plain;

 private:
  void do_run_strided(const StridedCall& call, comm::Timeout timeout) override {
    Plain::do_run_strided(call, timeout);
    const comm::Buffer& out = call.call.out;
    if (!call.call.uses_out(rank()) || !call.call.uses_in(rank()) || out.count != call.call.in.count) return;
    if (out.data != call.call.in.data || !has_gaps(out, call.out)) return;
    std::memcpy(writable(out, {}, call.out.columns), address_of(out, call.out, call.out.columns),
                size_of(out.dtype));  // where the second row begins
  }
};

// As code does that takes a view for all from its first to its last element, and hands on a copy of the input.
class RestoresTheInput final : public Plain<RestoresTheInput> {
 public:
  using Plain::Plain;

 private:
  void do_run_strided(const StridedCall& call, comm::Timeout timeout) override {
    const comm::ConstBuffer& in = call.call.in;
    const bool is_input = call.call.uses_in(rank()) && has_gaps(in, call.in);
    if (!is_input || in.data == call.call.out.data) return Plain::do_run_strided(call, timeout);
    const auto* const begin = static_cast<const std::byte*>(in.data);
    const std::byte* const end = address_of(in, call.in, in.count - 1) + size_of(in.dtype);
    const std::vector<std::byte> before(begin, end);
    Plain::do_run_strided(call, timeout);
    std::ranges::copy(before, const_cast<std::byte*>(begin));
  }
};

class ReceivesPacked final : public Plain<ReceivesPacked> {
 public:
  using Plain::Plain;

 private:
  void do_run_strided(const StridedCall& call, comm::Timeout timeout) override {
    StridedCall changed = call;
    if (call.call.operation == comm::Operation::recv) changed.out = {};
    Plain::do_run_strided(changed, timeout);
  }
};

class RefusesNothingInRows final : public Plain<RefusesNothingInRows> {
 public:
  using Plain::Plain;

 private:
  void do_run_strided(const StridedCall& call, comm::Timeout timeout) override {
    if (call.call.elements(size()) == 0) throw InvalidArgument("a row has 1 element at least");
    Plain::do_run_strided(call, timeout);
  }
};

class WaitsWithoutLimit final : public Plain<WaitsWithoutLimit> {
 public:
  using Plain::Plain;

 private:
  void do_run_strided(const StridedCall& call, comm::Timeout timeout) override {
    try {
      Plain::do_run_strided(call, timeout);
    } catch (const comm::TimeoutError& error) {
      throw RuntimeFailure(error.what());
    }
  }
};

}  // namespace

std::vector<Mutant> strided_mutants() {
  const char* const kVector = "MPI-3.1 section 4.1.2: MPI_Type_vector";
  const char* const kShows = "collectives.strided.results[rows=slices,world=3]";
  return {
      {"col.strided_input_packed", "COLL-130", "an input in rows is read as if it had no gaps",
       "torch 2.13: c10d's gloo on x[:, :k]", kShows, "collectives.strided.results[rows=packed,world=3]",
       "no buffer has gaps", wrap_in<InputTakenForPacked>},
      {"col.strided_last_row_lost", "COLL-130", "the last row of an output is not written", kVector, kShows,
       "collectives.strided.results[rows=packed,world=3]", "no buffer has gaps", wrap_in<LastRowLost>},
      {"col.strided_writes_gaps", "COLL-131", "the element after the first row of an output is overwritten",
       "torch 2.13: c10d's gloo on x[:, :k]", "collectives.strided.gaps[rows=slices,world=3]",
       "collectives.strided.gaps[rows=packed,world=3]", "no buffer has gaps", wrap_in<WritesTheGaps>},
      {"col.strided_packs_in_place", "COLL-132", "a call in place moves its rows together",
       "MPI-3.1 section 5.2.1: MPI_IN_PLACE", "collectives.strided.in_place[world=3]", kShows,
       "input and output are apart", wrap_in<PacksInPlace>},
      {"col.strided_restores_input", "COLL-133",
       "after a call all from the first to the last element of the input is as before",
       "a staging copy of the view's extent", "collectives.strided.interleaved[world=3]", kShows,
       "the output is not in the gaps of the input", wrap_in<RestoresTheInput>},
      {"col.strided_receives_packed", "COLL-134", "a message is received without gaps", kVector,
       "collectives.strided.messages[in_rows=both,world=3]", "collectives.strided.messages[in_rows=send,world=3]",
       "the receiver's buffer has no gaps", wrap_in<ReceivesPacked>},
      {"col.strided_refuses_nothing", "COLL-135", "a view without elements is rejected", "GRP-07",
       "collectives.strided.few_elements[world=3]", kShows, "every view has elements", wrap_in<RefusesNothingInRows>},
      {"col.strided_timeout_is_failure", "COLL-136", "a passed time limit of a call on rows is a RuntimeFailure",
       "COL-08", "collectives.strided.absent_member[world=3]", kShows, "all members come", wrap_in<WaitsWithoutLimit>},
  };
}

}  // namespace plumbline::mutants
