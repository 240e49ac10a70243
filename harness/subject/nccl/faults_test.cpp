#include "harness/subject/nccl/job_test.hpp"
#include "harness/subject/nccl/self_description.hpp"

namespace plumbline::subject::nccl {
namespace {

using namespace comm;
using testing::EndsWith;
using testing::HasSubstr;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using NcclFaults = NcclTest;

constexpr auto kLimit = 30ms;
constexpr auto kGenerous = 60s;  // none of these ends by it
const Call kBarrier{.operation = Operation::barrier};

template <class E>
std::string words_of(const auto& action) {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another error: " << error.what();
    return error.what();
  }
  return "no error";
}

TEST_F(NcclFaults, ATimeoutNamesExactlyWhoIsMissing) {
  if (n < 2) return;
  const auto victim = world.duplicate();
  std::string missing = n > 3 ? "ranks 1, 3" : "rank 1";
  if (me % 2 == 1) {
    world.barrier();
  } else {
    Work work = victim->start(kBarrier);
    world.barrier();
    EXPECT_THAT(words_of<TimeoutError>([&] { work.wait(kLimit); }), EndsWith("for " + missing));
    EXPECT_THAT(words_of<PeerFailed>([&] { victim->barrier(); }), HasSubstr("the group has failed"));
  }
  world.barrier();
  OnDevice data(gift(me, 5));
  world.all_reduce(data.view(), data.view(), ReduceOp::sum);
  EXPECT_EQ(data.get(), sums(n, 5)) << "another group's";
}

TEST_F(NcclFaults, AReceiveOfWhatIsNeverSentNamesItsPeer) {
  if (n < 2) return;
  const auto victim = world.duplicate();
  OnDevice data(5);
  if (me == 0) {
    EXPECT_THAT(words_of<TimeoutError>([&] { victim->recv(data.view(), n - 1, 4, kLimit); }),
                EndsWith("for rank " + std::to_string(n - 1)));
  } else if (me == n - 1) {
    EXPECT_THAT(words_of<TimeoutError>([&] { victim->send(data.view(), 0, 5, kLimit); }), EndsWith("for rank 0"));
  }
  world.barrier();
  // What was withdrawn is in nobody's way.
  OnDevice in(std::vector<float>{7});
  OnDevice out(1);
  const Call exchange[] = {{.operation = Operation::send, .root = (me + 1) % n, .tag = 5, .in = in.view()},
                           {.operation = Operation::recv, .root = (me + n - 1) % n, .tag = 5, .out = out.view()}};
  world.start(exchange).wait();
  EXPECT_EQ(out.get(), std::vector<float>{7});
}

TEST_F(NcclFaults, AnAbortReachesAllWithItsReasonAndNobodyElse) {
  const auto victim = world.duplicate();
  const auto made_from_it = victim->duplicate();
  world.barrier();
  if (me == n - 1) victim->abort("enough of this");
  EXPECT_THAT(words_of<PeerFailed>([&] { victim->barrier(kGenerous); }), HasSubstr("enough of this"));
  EXPECT_THAT(words_of<PeerFailed>([&] { made_from_it->barrier(kGenerous); }), HasSubstr("enough of this"));
  world.barrier();
}

TEST_F(NcclFaults, AbortDoesNotWaitForNccl) {
  const DoubleFault slow("slow_abort");
  const auto victim = world.duplicate();
  const auto begin = Clock::now();
  victim->abort("now");
  EXPECT_LT(Clock::now() - begin, 800ms);
  EXPECT_THROW(victim->barrier(), PeerFailed);
}

// Counts what other streams than one are let wait for: each batch of calls that a lane puts into NCCL.
class CountsCalls final : public device::RuntimeDecorator {
 public:
  CountsCalls(std::shared_ptr<device::Runtime> inner, device::Stream callers)
      : RuntimeDecorator(std::move(inner)), callers_(callers) {}
  void wait(int device, device::Stream stream, device::Event event) override {
    if (stream != callers_) ++count;
    RuntimeDecorator::wait(device, stream, event);
  }
  std::atomic<int> count = 0;

 private:
  const device::Stream callers_;
};

TEST_F(NcclFaults, AnAbortKeepsBackTheCallsThatWaitForNccl) {
  const device::OwnStream stream(devices(), job()->process.device);
  const auto counts = std::make_shared<CountsCalls>(devices(), stream.get());
  const auto victim = make_world(make_job("calls-of-an-aborted-group", "60", counts), stream.get());
  std::vector<OnDevice> data;
  std::vector<Work> works;
  for (int i = 0; i < 4; ++i) data.emplace_back(gift(me, 100));
  int gone_in = 0;
  {
    const DoubleFault slow("slow_calls");
    for (const OnDevice& one : data)
      works.push_back(victim->start({.operation = Operation::all_reduce, .in = one.view(), .out = one.view()}));
    gone_in = counts->count;
    tell("has-started-" + std::to_string(me));
    for (int rank = 0; rank < n; ++rank) {
      const std::string number = std::to_string(rank);
      await_word("has-started-" + number, "rank " + number + " to start its calls");
    }
    if (me == n - 1) {
      victim->abort("enough of this");
      tell("is-aborted");
    }
    await_word("is-aborted", "the last rank to abort the group");
  }
  std::this_thread::sleep_for(200ms);  // for the thread
  EXPECT_EQ(counts->count, gone_in);
  EXPECT_THAT(words_of<PeerFailed>([&] { works.back().wait(kGenerous); }), HasSubstr("enough of this"));
  EXPECT_EQ(counts->count, gone_in);
  works.clear();
  world.barrier();
}

TEST_F(NcclFaults, ADepartureIsNoticed) {
  if (n < 2) return;
  auto victim = world.duplicate();
  world.barrier();
  OnDevice data(5);
  if (me == n - 1)
    victim.reset();
  else if (me == 0 && n > 2)
    EXPECT_THAT(words_of<PeerFailed>([&] { victim->recv(data.view(), n - 1, 0, kGenerous); }),
                HasSubstr("has left the group"));
  else
    EXPECT_THAT(words_of<PeerFailed>([&] { victim->barrier(kGenerous); }),
                testing::AnyOf(HasSubstr("has left the group"), HasSubstr("has failed")));
  world.barrier();
}

TEST_F(NcclFaults, WhoLeavesAfterItsCallsIsNotMissed) {
  for (int round = 0; round < 20; ++round) {
    auto group = world.duplicate();
    OnDevice data(gift(me, 10)), message(1);
    group->all_reduce(data.view(), data.view(), ReduceOp::sum);
    if (n > 1 && me == n - 1) group->send(data.view(0, 1), 0);
    if (n > 1 && me == 0) group->recv(message.view(), n - 1);
    group.reset();
  }
}

TEST_F(NcclFaults, ADroppedWorkFailsTheGroup) {
  if (n < 2) return;
  const auto victim = world.duplicate();
  if (me == 0) {
    {
      const Work dropped = victim->start(kBarrier);
    }
    EXPECT_THAT(words_of<PeerFailed>([&] { victim->barrier(); }), HasSubstr("dropped an unfinished call"));
  } else {
    world.barrier();
    EXPECT_THAT(words_of<PeerFailed>([&] { victim->barrier(kGenerous); }), HasSubstr("dropped an unfinished call"));
    return;
  }
  world.barrier();
}

TEST_F(NcclFaults, AnAsynchronousErrorEndsTheCallWithNcclsWords) {
  const auto victim = world.duplicate();
  const DoubleFault fault("async_error");
  // Its own, or first that of another rank.
  EXPECT_THAT(words_of<Error>([&] { victim->barrier(kGenerous); }), HasSubstr("remote process exited"));
  EXPECT_THROW(victim->barrier(), PeerFailed);
}

TEST_F(NcclFaults, AnErrorOfCudaIsOneOfTheDevice) {
  const auto victim = world.create_group(std::vector<int>{me});  // nobody's error comes first
  const DoubleFault fault("device_error");
  EXPECT_THAT(words_of<DeviceFailure>([&] { victim->barrier(kGenerous); }),
              testing::AllOf(HasSubstr("[" + std::to_string(me) + "], rank 0"), HasSubstr("unhandled cuda error")));
  EXPECT_THROW(victim->barrier(), PeerFailed);
}

TEST_F(NcclFaults, AnOperatorThatIsNotMadeAtOnceEndsTheCall) {
  const auto victim = world.create_group(std::vector<int>{me});
  OnDevice data(std::vector<float>{1, 2});
  const Call sum{.operation = Operation::all_reduce, .in = data.view(), .out = data.view()};
  {
    const DoubleFault fault("operator_under_way");
    EXPECT_THAT(words_of<RuntimeFailure>([&] { victim->run_scaled(sum, 2); }), HasSubstr("rank 0: a call of NCCL: "));
  }
  EXPECT_THROW(victim->run_scaled(sum, 2), PeerFailed);
}

TEST_F(NcclFaults, ARefusedCommunicatorIsAnErrorOfAllThatMakeIt) {
  const DoubleFault fault("refuse_init");
  // Of one rank: no other waits for it.
  EXPECT_THAT(words_of<RuntimeFailure>([&] { (void)world.create_group(std::vector<int>{me}); }),
              HasSubstr("ncclCommInitRankConfig: invalid usage: Duplicate GPU detected"));
}

TEST_F(NcclFaults, ARankThatNeverComesIsNamed) {
  if (n < 3 || me == n - 1) return;
  // A job of its own, whose limit is short, in the same folder: other groups than those that the last rank knows.
  const auto hasty =
      std::make_shared<Job>(Options::parse({{"library", NCCL_DOUBLE}, {"runtime", "emulated"}, {"start_limit", "1"}}),
                            job()->process.place, devices());
  for (int skipped = 0; skipped < 1000; ++skipped) (void)hasty->process.next_creation(kNoParent, {0, n - 1});
  if (me != 0) return;
  EXPECT_THAT(words_of<RuntimeFailure>([&] { (void)Group::create(hasty, nullptr, {0, n - 1}, ""); }),
              HasSubstr("rank 1 did not come to make the group after 1 s"));
}

TEST_F(NcclFaults, WhoComesAfterAFailedStartLearnsWhatHappened) {
  if (n < 2) return;
  const auto hasty = make_job("late", "1");
  const auto create = [&] { (void)Group::create(hasty, nullptr, {0, n - 1}, ""); };
  if (me == 0) {
    EXPECT_THAT(words_of<RuntimeFailure>(create), HasSubstr("rank 1 did not come to make the group after 1 s"));
  }
  world.barrier();
  if (me == n - 1) {
    EXPECT_THAT(words_of<PeerFailed>(create), HasSubstr("rank 1 did not come to make the group after 1 s"));
  }
  world.barrier();
}

// ---- messages that are given up; rank 0 and rank 1, in a job of their own ----

class NcclWithdrawal : public NcclTest {
 protected:
  // Both have made groups, `first` for what goes wrong and `second` for what goes on.
  void open(const std::string& name) {
    apart_ = make_job(name);
    first = make_world(apart_, stream_.get());
    second = first->duplicate();
  }
  // A message from rank 0 to rank 1 or back: it comes after what was given up, and is right.
  void expect_in_step(int from) {
    if (me > 1) return;
    OnDevice message(me == from ? gift(from, 3) : std::vector<float>(3));
    if (me == from)
      second->send(message.view(), 1 - from, 9);
    else
      second->recv(message.view(), from, 9);
    stream_.synchronize();
    EXPECT_EQ(message.get(), gift(from, 3));
  }
  // Moves the work on until all ranks are here.
  void keep_looking(Work& work) {
    Work all_here = world.start(kBarrier);
    const auto are_all_here = [&] {
      if (all_here.test()) return true;
      EXPECT_FALSE(work.test());
      return false;
    };
    await(are_all_here, "the other ranks to come to their barrier");
  }
  // Rank 0 starts a message to rank 1, meets all ranks and gives it up, and then its buffer changes: what rank 1
  // receives is what was there.
  void give_up_a_send(const std::function<void(comm::ConstBuffer data)>& start_and_give_up) {
    OnDevice data(me == 0 ? gift(0, 5) : std::vector<float>(5));
    if (me == 0) {
      start_and_give_up(data.view());
      stream_.synchronize();
      data.put(std::vector<float>(5, 3));
    } else {
      if (me == 1) first->recv(data.view(), 0, 0, kGenerous);
      world.barrier();
    }
    expect_in_step(0);
    if (me == 1) {
      EXPECT_EQ(data.get(), gift(0, 5));
    }
    world.barrier();
  }

  // Of its own: the ranks' barriers are not held up by what is stuck.
  const device::OwnStream stream_{devices(), job()->process.device};
  std::shared_ptr<Job> apart_;
  std::unique_ptr<Communicator> first, second;
};

TEST_F(NcclWithdrawal, AReceiveThatWasTakenLeavesTheBufferAlone) {
  if (n < 2) return;
  open("receive");
  OnDevice data(me == 1 ? gift(1, 5) : std::vector<float>(5, 3));
  Work sent;
  if (me == 1) sent = first->start({.operation = Operation::send, .root = 0, .in = data.view()});
  world.barrier();
  if (me == 0) {
    const DoubleFault fault("slow_connect");
    EXPECT_THROW(first->recv(data.view(), 1, 0, kLimit), TimeoutError);
  } else if (me == 1) {
    (void)words_of<PeerFailed>([&] { sent.wait(kGenerous); });
  }
  expect_in_step(1);
  if (me == 0) {
    EXPECT_EQ(data.get(), std::vector<float>(5, 3));
  }
  world.barrier();
}

TEST_F(NcclWithdrawal, WhoLeavesAfterASendThatWasTakenIsNotMissed) {
  if (n < 2) return;
  open("left");
  OnDevice data(me == 1 ? gift(1, 5) : std::vector<float>(5));
  if (me == 0) {
    Work received;
    {
      const DoubleFault fault("slow_connect");
      received = first->start({.operation = Operation::recv, .root = 1, .out = data.view()});
      keep_looking(received);
      EXPECT_FALSE(received.test());  // the sender has left by now
    }
    received.wait(kGenerous);
    stream_.synchronize();
    EXPECT_EQ(data.get(), gift(1, 5));
  } else {
    if (me == 1) first->send(data.view(), 0, 0, kGenerous);
    first.reset();
    world.barrier();
  }
  world.barrier();
}

TEST_F(NcclWithdrawal, ASendThatWaitsForItsConnectionIsWhatWasReceived) {
  if (n < 2) return;
  open("connection");
  give_up_a_send([&](comm::ConstBuffer data) {
    const DoubleFault fault("slow_connect");
    Work sent = first->start({.operation = Operation::send, .root = 1, .in = data});
    keep_looking(sent);
    EXPECT_THROW(sent.wait(kLimit), TimeoutError);
  });
}

TEST_F(NcclWithdrawal, ASendThatIsDroppedAfterItWasReceivedIsWhatWasReceived) {
  if (n < 2) return;
  open("drop");
  expect_in_step(0);  // connected
  give_up_a_send([&](comm::ConstBuffer data) {
    const Work sent = first->start({.operation = Operation::send, .root = 1, .in = data});
    world.barrier();  // nobody looks at the call meanwhile
  });
}

TEST_F(NcclWithdrawal, ASendThatNobodyTakesIsLookedAfterRarely) {
  if (n < 2) return;
  open("never-taken");
  const OnDevice data(5);
  if (me == 0) {
    EXPECT_THROW(first->send(data.view(), 1, 0, kLimit), TimeoutError);
    const Process::Turn turn(apart_->process);
    (void)apart_->messages.pump();
    const Step step = apart_->messages.pump();
    EXPECT_EQ(step.left, Left::others) << "the receiver may take it";
    EXPECT_FALSE(step.has_moved);
  }
  world.barrier();
}

TEST_F(NcclWithdrawal, AnErrorOfMessagesEndsTheCallsThatHaveSomeThereAndNoOthers) {
  if (n < 2) return;
  open("error");
  expect_in_step(0);  // connected
  OnDevice data(5);
  if (me == 0) {
    await_word("fault-is-planted", "rank 1 to plant its fault");
    Work sent = second->start({.operation = Operation::send, .root = 1, .in = data.view()});
    (void)words_of<RuntimeFailure>([&] { sent.wait(kGenerous); });
  } else if (me == 1) {
    Work received = second->start({.operation = Operation::recv, .root = 0, .out = data.view()});
    Work other = first->start({.operation = Operation::send, .root = 0, .tag = 5, .in = data.view()});
    {
      const DoubleFault fault("async_error");
      tell("fault-is-planted");
      // Launched, and ended with an error, while another call looks.
      const auto end = Clock::now() + 300ms;
      while (Clock::now() < end) EXPECT_FALSE(other.test());
      EXPECT_THAT(words_of<RuntimeFailure>([&] { received.wait({}); }), HasSubstr("remote process exited"));
    }
    EXPECT_EQ(words_of<Error>([&] { first->barrier(kGenerous); }), "no error");
    world.barrier();  // the others are through, too
    EXPECT_THAT(words_of<RuntimeFailure>([&] { first->recv(data.view(), 0); }), HasSubstr("failed before"));
    return;
  }
  if (me != 1) {
    EXPECT_EQ(words_of<Error>([&] { first->barrier(kGenerous); }), "no error");
  }
  world.barrier();
}

TEST_F(NcclWithdrawal, AnErrorOfMessagesIsToldWhileItsRankIsElsewhere) {
  if (n < 2) return;
  open("error-elsewhere");
  expect_in_step(0);  // connected
  const OnDevice data(20000);
  if (me == 0) {
    Work sent = second->start({.operation = Operation::send, .root = 1, .in = data.view()});
    // Of the same direction; the first may have been put in before the error.
    const auto next = [&] {
      Work other = first->start({.operation = Operation::send, .root = 1, .tag = 5, .in = data.view()});
      await([&] { return other.test(); }, "the error of rank 1", 10s);
    };
    EXPECT_THAT(words_of<RuntimeFailure>(next), HasSubstr("messages have failed in process 1"));
    tell("has-learnt-of-messages");
  } else if (me == 1) {
    const DoubleFault fault("async_error");
    devices()->pause(job()->process.device, 100ms,
                     stream_.get());  // the error comes when nobody has just put something in
    Work received = second->start({.operation = Operation::recv, .root = 0, .out = data.view()});
    await_word("has-learnt-of-messages", "rank 0 to learn of the error");
    EXPECT_THAT(words_of<RuntimeFailure>([&] { received.wait(kGenerous); }), HasSubstr("remote process exited"));
  }
  world.barrier();
}

TEST_F(NcclWithdrawal, AnErrorOfACollectiveIsToldWhileItsRankIsElsewhere) {
  if (n < 2) return;
  open("collective-elsewhere");
  OnDevice data(5);
  const Call call{.operation = Operation::all_reduce, .in = data.view(), .out = data.view()};
  if (me == 1) {
    const DoubleFault fault("async_error");
    devices()->pause(job()->process.device, 100ms, stream_.get());
    Work work = first->start(call);
    for (int rank = 0; rank < n; ++rank)
      if (rank != 1) await_word("has-learnt-" + std::to_string(rank), "rank " + std::to_string(rank));
    EXPECT_THAT(words_of<RuntimeFailure>([&] { work.wait(kGenerous); }), HasSubstr("remote process exited"));
  } else {
    Work work = first->start(call);
    EXPECT_THAT(words_of<PeerFailed>([&] { first->barrier(10s); }), HasSubstr("remote process exited"));
    tell("has-learnt-" + std::to_string(me));
  }
  world.barrier();
}

// Who waits for its stream makes no call that could learn of the error.
TEST_F(NcclWithdrawal, AnErrorEndsWhatOthersWaitForInTheirStreams) {
  if (n < 2) return;
  open("error-in-stream");
  OnDevice data(5);
  const Call call{.operation = Operation::all_reduce, .in = data.view(), .out = data.view()};
  if (me == 1) {
    const DoubleFault fault("async_error");
    devices()->pause(job()->process.device, 300ms,
                     stream_.get());  // the error comes when the others wait for their streams
    Work work = first->start(call);
    for (int rank = 0; rank < n; ++rank)
      if (rank != 1) await_word("has-ended-" + std::to_string(rank), "rank " + std::to_string(rank));
    EXPECT_THAT(words_of<RuntimeFailure>([&] { work.wait(kGenerous); }), HasSubstr("remote process exited"));
  } else {
    Work work = first->start(call);
    work.wait(kGenerous);
    device::OwnEvent after(devices(), job()->process.device);
    after.record(stream_.get());
    await([&] { return after.is_reached(); }, "the stream of rank " + std::to_string(me));
    tell("has-ended-" + std::to_string(me));
    EXPECT_THAT(words_of<PeerFailed>([&] { first->barrier(10s); }), HasSubstr("remote process exited"));
  }
  world.barrier();
}

TEST_F(NcclWithdrawal, AnAbortKeepsBackMessagesThatNobodyHasTaken) {
  if (n < 2) return;
  open("messages-of-an-aborted-group");
  const auto victim = first->duplicate();
  expect_in_step(1);  // connected
  const OnDevice data(me == 1 ? gift(1, 5) : std::vector<float>(5, 3));
  Work half;
  if (me == 0) {
    half = victim->start({.operation = Operation::recv, .root = 1, .out = data.view()});
    victim->abort("enough of this");
  }
  world.barrier();
  if (me == 1) half = victim->start({.operation = Operation::send, .root = 0, .in = data.view()});
  world.barrier();
  std::this_thread::sleep_for(200ms);  // for the threads
  if (me == 0) {
    EXPECT_EQ(data.get(), std::vector<float>(5, 3));
  }
  if (me < 2) {
    EXPECT_THAT(words_of<PeerFailed>([&] { half.wait(kGenerous); }), HasSubstr("enough of this"));
  }
  half = {};
  expect_in_step(1);
  world.barrier();
}

// ---- ends ----

TEST_F(NcclWithdrawal, ADestructorDoesNotWaitForWhatNeverEnds) {
  if (n < 2) return;
  OnDevice data(5);
  open("never");
  {
    Work work;
    {
      // Rank 1 makes the call; its device never comes to it, and it says nothing of that.
      const DoubleFault fault(me == 1 ? "hidden_error" : "");
      work = first->start({.operation = Operation::all_reduce, .in = data.view(), .out = data.view()});
    }
    if (me != 1) {
      work.wait(kGenerous);
      work = {};
      first.reset();
    }
    world.barrier();
  }
  second.reset();
  first.reset();
  apart_.reset();
  world.barrier();
}

TEST_F(NcclWithdrawal, ADestructorEndsWhatAFailedMemberLeavesUndone) {
  if (n < 2) return;
  OnDevice data(5);
  open("failed");
  {
    Work work;
    {
      const DoubleFault fault(me == 1 ? "hidden_error" : "");
      work = first->start({.operation = Operation::all_reduce, .in = data.view(), .out = data.view()});
    }
    if (me != 1) work.wait(kGenerous);
    world.barrier();
  }
  if (me == 1) first->abort("enough");
  world.barrier();
  first.reset();
  stream_.synchronize();
  world.barrier();
}

// ---- what cannot start; each rank for itself ----

std::string why_not(const BackendOptions& given, int ranks = 1, int devices = 1) {
  BackendOptions options{{"library", NCCL_DOUBLE}, {"runtime", "emulated"}};
  for (const auto& [key, value] : given) options[key] = value;
  // Not the folder of the job: its board is of another length.
  const std::filesystem::path folder =
      job()->process.place.scratch / ("alone-" + std::to_string(job()->process.place.rank));
  std::filesystem::create_directory(folder);
  return words_of<Error>([&] {
    const Place place{.rank = 0, .size = ranks, .scratch = folder};
    const Process process(Options::parse(options), place, device::make_emulated({.devices = devices}));
  });
}

TEST(NcclStart, ALibraryThatIsNotThereIsNamedWithTheRemedy) {
  EXPECT_THAT(why_not({{"library", "libnccl_nowhere.so.2"}}),
              testing::AllOf(HasSubstr("'libnccl_nowhere.so.2' is not on this machine; install NCCL 2.18.1 or later"),
                             HasSubstr("--backend-option library=FILE")));
}

TEST(NcclStart, AnOldVersionIsNamedWithTheOldest) {
  ::setenv("NCCL_DOUBLE_VERSION", "21700", 1);
  EXPECT_THAT(why_not({}), HasSubstr("is too old; 2.18.1 or later is needed"));
  EXPECT_THAT(why_not({}), HasSubstr("NCCL 2.17.0"));
  ::setenv("NCCL_DOUBLE_VERSION", "2804", 1);
  EXPECT_THAT(why_not({}), HasSubstr("NCCL 2.8.4"));
  ::unsetenv("NCCL_DOUBLE_VERSION");
  EXPECT_EQ(why_not({}), "no error");
}

TEST(NcclStart, AFunctionThatCanBeMissedIsMissedWhereItIsNeeded) {
  EXPECT_EQ(why_not({{"library", NCCL_DOUBLE_BARE}}), "no error");
  const Library bare(NCCL_DOUBLE_BARE), whole(NCCL_DOUBLE);
  EXPECT_EQ(bare.lacking(comm::Operation::reduce), "ncclReduce");
  EXPECT_EQ(bare.lacking(comm::Operation::all_to_all), "ncclSend, ncclRecv");
  EXPECT_EQ(bare.lacking(comm::Operation::barrier), "");
  const auto capabilities = capabilities_of(bare, comm::Device::Kind::emulated);
  EXPECT_FALSE(capabilities.has(comm::Capability::point_to_point));
  EXPECT_TRUE(capabilities.has(comm::Capability::groups));
  EXPECT_THAT(capabilities.notes, testing::Contains("the library has no ncclReduce: reduce is rejected"));
  for (const comm::Operation operation : {comm::Operation::reduce, comm::Operation::scatter, comm::Operation::recv})
    EXPECT_EQ(whole.lacking(operation), "");
  EXPECT_TRUE(capabilities_of(whole, comm::Device::Kind::emulated).has(comm::Capability::point_to_point));
}

TEST(NcclStart, AMissingFunctionIsNamed) {
  EXPECT_THAT(why_not({{"library", "libm.so.6"}}), HasSubstr("'libm.so.6' has no ncclGetVersion: it is no NCCL"));
}

TEST(NcclStart, FewerDevicesThanRanksAreRefused) {
  EXPECT_THAT(why_not({}, 2, 1),
              HasSubstr("2 ranks need 2 GPUs, this host has 1 (emulated); NCCL rejects two ranks on one GPU"));
  EXPECT_EQ(why_not({{"device", "0"}}, 2, 1), "no error") << "each rank may see another GPU as its first";
  EXPECT_THAT(why_not({{"device", "3"}}, 1, 2),
              HasSubstr("device=3: this host has 2 emulated devices, counted from 0"));
}

TEST(NcclStart, BadOptionsAreNamedWithWhatWouldBeRight) {
  EXPECT_EQ(why_not({{"gpu", "1"}}),
            "backend nccl: no option 'gpu'; there are library, runtime, device and start_limit");
  EXPECT_EQ(why_not({{"device", "x"}}), "backend nccl: device=x: it is a whole number from 0 to 1023");
  EXPECT_EQ(why_not({{"start_limit", "0"}}), "backend nccl: start_limit=0: it is a whole number from 1 to 86400");
  EXPECT_EQ(why_not({{"runtime", "rocm"}}), "backend nccl: runtime=rocm: it is cuda or emulated");
  EXPECT_EQ(why_not({{"library", ""}}), "backend nccl: library=: it is the file of a shared library");
}

}  // namespace
}  // namespace plumbline::subject::nccl
