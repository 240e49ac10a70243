#include <array>
#include <utility>

#include <dlfcn.h>

#include "harness/subject/nccl/job_test.hpp"

namespace plumbline::subject::nccl {
namespace {

using namespace comm;
using NcclCalls = NcclTest;
using NcclGroups = NcclTest;
using NcclMessages = NcclTest;
using NcclStreams = NcclTest;
using namespace std::chrono_literals;

TEST_F(NcclCalls, ReductionsGiveTheirResultInAndOutOfPlace) {
  common.all_reduce_gives_every_rank_the_result();
  common.reduce_gives_the_root_the_result();
  common.reduce_scatter_gives_each_rank_its_part();
}

TEST_F(NcclCalls, MinMaxProductAndAverageAreNccls) {
  const std::size_t c = 9;
  for (const ReduceOp op : {ReduceOp::min, ReduceOp::max, ReduceOp::product, ReduceOp::avg}) {
    OnDevice in(gift(me, c));
    world.all_reduce(in.view(), in.view(), op);
    const std::vector<float> got = in.get();
    for (std::size_t i = 0; i < c; ++i) {
      float expected = given(0, i);
      for (int rank = 1; rank < n; ++rank) {
        if (op == ReduceOp::product) expected *= given(rank, i);
        if (op == ReduceOp::max) expected = std::max(expected, given(rank, i));
      }
      if (op == ReduceOp::avg) expected = sum_of(n, i) / static_cast<float>(n);
      EXPECT_FLOAT_EQ(got[i], expected) << name_of(op);
    }
  }
}

// More of them than a communicator has operators at once.
TEST_F(NcclCalls, SumsHaveTheFactorOfEachRank) {
  constexpr std::size_t c = 9;
  for (const double factor : {1.0, -2.0, 0.5, 3.0}) {
    std::vector<float> expected(c * un);
    for (std::size_t i = 0; i < expected.size(); ++i)
      for (int rank = 0; rank < n; ++rank) expected[i] += static_cast<float>(factor + rank) * given(rank, i);
    OnDevice in(gift(me, c * un)), out(c * un), part(c);
    world.run_scaled({.operation = Operation::all_reduce, .in = in.view(), .out = out.view()}, factor + me);
    EXPECT_EQ(out.get(), expected);
    world.run_scaled({.operation = Operation::reduce_scatter, .in = in.view(), .out = part.view()}, factor + me);
    EXPECT_EQ(part.get(), std::vector<float>(expected.begin() + me * 9, expected.begin() + (me + 1) * 9));
    EXPECT_EQ(in.get(), gift(me, c * un));
    world.run_scaled({.operation = Operation::reduce, .root = n - 1, .in = in.view(), .out = in.view()}, factor + me);
    EXPECT_EQ(in.get(), me == n - 1 ? expected : gift(me, c * un));
  }
}

TEST_F(NcclCalls, AFactorIsAnElementOfEachType) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    DeviceElements data(dtype, std::vector<double>(20, 6));
    world.run_scaled({.operation = Operation::all_reduce, .in = data.view(), .out = data.view()}, 0.75);
    EXPECT_TRUE(data == DeviceElements(dtype, std::vector<double>(20, 4.5 * n))) << name_of(dtype);
  }
}

TEST_F(NcclCalls, MemoryIsRegisteredWithNcclAndEndsWithTheCallOrTheGroup) {
  const auto registrations = [] {
    void* const library = ::dlopen(NCCL_DOUBLE, RTLD_NOW | RTLD_NOLOAD);
    std::pair<int, int> figures;
    reinterpret_cast<void (*)(int*, int*)>(::dlsym(library, "nccl_double_registrations"))(&figures.first,
                                                                                          &figures.second);
    return figures;
  };
  const auto [made, ended] = registrations();
  OnDevice in(gift(me, 9)), out(9);
  {
    const auto group = world.duplicate();
    const Registration first = group->register_memory(in.view()), second = group->register_memory(in.view());
    EXPECT_NE(first, second);
    EXPECT_EQ(registrations(), std::pair(made + 2, ended));
    Work work = group->start({.operation = Operation::all_reduce, .in = in.view(), .out = out.view()});
    const Registration third = group->register_memory(out.view());  // while NCCL may be at work
    work.wait();
    EXPECT_EQ(out.get(), sums(n, 9));
    group->deregister(second);
    EXPECT_EQ(registrations(), std::pair(made + 3, ended + 1));
    EXPECT_THROW(group->deregister(second), InvalidArgument);
    EXPECT_THROW(world.deregister(first), InvalidArgument) << "it is of another group";
    EXPECT_THROW((void)group->register_memory({out.view().data, 9, DType::f32}), Unsupported)
        << "said to be the host's";
    world.barrier();  // an abort ends the group on all ranks, and with it its registrations
    group->abort("no more");
    EXPECT_NO_THROW(group->deregister(third)) << "it has ended with the group";
  }
  const int before = registrations().second;
  {
    const auto group = world.duplicate();
    (void)group->register_memory(in.view());
  }
  await(
      [&] {
        const Process::Turn turn(job()->process);
        job()->process.tend();
        return registrations().second == before + 1;
      },
      "the registrations of a group that is gone");
}

TEST_F(NcclCalls, BlocksOfDifferentLengthsAndComplexNumbersAreNotClaimed) {
  OnDevice in(gift(me, un)), out(un * un);
  const std::vector<std::int64_t> counts(un, n);
  EXPECT_THROW(
      world.run_uneven({.operation = Operation::all_gather, .in = in.view(), .out = out.view(), .out_counts = counts}),
      Unsupported);
  Buffer complex = out.view();
  complex.dtype = DType::c64;
  complex.count = 1;
  EXPECT_THROW(world.broadcast(complex, 0), Unsupported);
  world.barrier();  // nothing has happened to the group
}

TEST_F(NcclCalls, CopiesArriveInAndOutOfPlace) {
  common.broadcast_gives_every_rank_the_roots_elements();
  common.gather_gives_the_root_all_blocks();
  common.scatter_gives_each_rank_its_block();
  common.all_gather_gives_every_rank_all_blocks();
  common.all_to_all_exchanges_blocks();
}

TEST_F(NcclCalls, ABatchTakesEffectInItsOrder) {
  OnDevice a(gift(me, 50)), b(50), c(50);
  const Call calls[] = {{.operation = Operation::all_reduce, .in = a.view(), .out = b.view()},
                        {.operation = Operation::all_reduce, .op = ReduceOp::max, .in = b.view(), .out = c.view()},
                        {.operation = Operation::barrier},
                        {.operation = Operation::broadcast, .root = n - 1, .out = a.view()}};
  world.start(calls).wait();
  EXPECT_EQ(b.get(), sums(n, 50));
  EXPECT_EQ(c.get(), sums(n, 50)) << "it did not wait for the first";
  EXPECT_EQ(a.get(), gift(n - 1, 50)) << "the first read it afterwards";
}

TEST_F(NcclCalls, ManyAreWaitedForInAnyOrder) { common.many_are_waited_for_in_any_order(); }

TEST_F(NcclCalls, CallsGoTogetherThatDoNotTouchEachOther) {
  OnDevice a(4), b(4);
  const Call reduce{.operation = Operation::all_reduce, .in = a.view(), .out = a.view()};
  const Call other{.operation = Operation::broadcast, .root = 0, .out = b.view()};
  const Call reads{.operation = Operation::all_reduce, .in = a.view(2, 2), .out = b.view(0, 2)};
  EXPECT_TRUE(may_go_together(reduce, other, 2));
  EXPECT_FALSE(may_go_together(reduce, reads, 2)) << "it reads what the first writes";
  EXPECT_FALSE(may_go_together(reads, reduce, 2)) << "it writes what the first reads";
  EXPECT_FALSE(may_go_together(other, reads, 2)) << "both write";
  EXPECT_FALSE(may_go_together(other, {.operation = Operation::barrier}, 2));
}

TEST_F(NcclCalls, MemoryThatIsNotTheDevicesIsRefused) {
  float value = 1;
  const auto words = [&](Device device) {
    const Buffer there{&value, 1, DType::f32, device};
    try {
      world.all_reduce(there, there, ReduceOp::sum);
    } catch (const Error& error) {
      return std::string(error.kind()) + ": " + error.what();
    }
    return std::string("nothing");
  };
  const std::string ours = name_of(OnDevice::place());
  EXPECT_EQ(words({}),
            "unsupported: all_reduce: memory on cpu is not supported by backend nccl on this rank, only " + ours);
  EXPECT_THAT(words(OnDevice::place()), testing::AllOf(testing::StartsWith("invalid_argument: all_reduce: "),
                                                       testing::HasSubstr(ours), testing::HasSubstr("host")));
  world.barrier();
}

TEST_F(NcclGroups, MembersAreInTheOrderOfTheList) {
  std::vector<int> backwards;
  for (int rank = n - 1; rank >= 0; --rank) backwards.push_back(rank);
  const auto group = world.create_group(backwards);
  ASSERT_EQ(group->rank(), n - 1 - me);
  OnDevice mine(std::vector<float>{static_cast<float>(me)}), all(un);
  group->all_gather(mine.view(), all.view());
  for (int member = 0; member < n; ++member)
    EXPECT_EQ(all.get()[static_cast<std::size_t>(member)], static_cast<float>(n - 1 - member));
}

TEST_F(NcclGroups, OthersThanMembersNeedNotCome) {
  if (n < 3) return;
  const std::vector<int> list{n - 1, 0};
  if (me == 0 || me == n - 1) {
    const auto group = world.create_group(list);
    OnDevice data(gift(me, 30));
    group->all_reduce(data.view(), data.view(), ReduceOp::sum);
    std::vector<float> expected = gift(0, 30);
    for (std::size_t i = 0; i < 30; ++i) expected[i] += given(n - 1, i);
    EXPECT_EQ(data.get(), expected);
    const auto again = group->create_group(std::vector<int>{1, 0});
    EXPECT_EQ(again->group().ranks, (std::vector<int>{0, n - 1}));
    again->barrier();
  }
  world.barrier();
}

TEST_F(NcclGroups, CallsOfTwoGroupsMayBeStartedInAnyOrder) {
  const auto first = world.duplicate(), second = world.duplicate();
  OnDevice a(gift(me, 100)), b(gift(me, 200));
  const Call one{.operation = Operation::all_reduce, .in = a.view(), .out = a.view()};
  const Call two{.operation = Operation::all_reduce, .in = b.view(), .out = b.view()};
  Work x = me % 2 == 0 ? first->start(one) : second->start(two);
  Work y = me % 2 == 0 ? second->start(two) : first->start(one);
  y.wait();
  x.wait();
  EXPECT_EQ(a.get(), sums(n, 100));
  EXPECT_EQ(b.get(), sums(n, 200));
}

TEST_F(NcclMessages, GoByTagAndInOrderAroundARing) {
  const int to = (me + 1) % n, from = (me + n - 1) % n;  // with one rank, itself
  constexpr std::size_t kMessages = 6;
  for (const std::size_t c : {std::size_t{0}, std::size_t{1}, std::size_t{20000}}) {
    std::vector<OnDevice> sent, received;
    std::vector<Work> sends;
    for (std::size_t i = 0; i < kMessages; ++i) {
      sent.emplace_back(std::vector<float>(c, static_cast<float>(me * 10) + static_cast<float>(i)));
      received.emplace_back(c);
      sends.push_back(world.start(
          {.operation = Operation::send, .root = to, .tag = static_cast<int>(i / 2), .in = sent[i].view()}));
    }
    for (const std::size_t i : {4, 5, 2, 3, 0, 1}) world.recv(received[i].view(), from, static_cast<int>(i / 2));
    for (Work& send : sends) send.wait();
    for (std::size_t i = 0; i < kMessages; ++i)
      EXPECT_EQ(received[i].get(), std::vector<float>(c, static_cast<float>(from * 10) + static_cast<float>(i))) << i;
  }
}

TEST_F(NcclMessages, ExchangeAllInOneBatch) {
  std::vector<OnDevice> out, in;
  std::vector<Call> calls;
  for (int peer = 0; peer < n; ++peer) {
    out.emplace_back(std::vector<float>(9000, static_cast<float>(me * 10 + peer)));
    in.emplace_back(9000);
  }
  for (int peer = 0; peer < n; ++peer) {
    calls.push_back({.operation = Operation::send, .root = peer, .in = out[static_cast<std::size_t>(peer)].view()});
    calls.push_back({.operation = Operation::recv, .root = peer, .out = in[static_cast<std::size_t>(peer)].view()});
  }
  world.start(calls).wait();
  for (int peer = 0; peer < n; ++peer)
    EXPECT_EQ(in[static_cast<std::size_t>(peer)].get(), std::vector<float>(9000, static_cast<float>(peer * 10 + me)));
}

TEST_F(NcclMessages, OfTwoGroupsNeverMeet) {
  const auto first = world.duplicate(), second = world.duplicate();
  const int to = (me + 1) % n, from = (me + n - 1) % n;
  OnDevice one(std::vector<float>{1}), two(std::vector<float>{2}), a(1), b(1);
  Work x = first->start({.operation = Operation::send, .root = to, .in = one.view()});
  Work y = second->start({.operation = Operation::send, .root = to, .in = two.view()});
  second->recv(b.view(), from);
  first->recv(a.view(), from);
  x.wait();
  y.wait();
  EXPECT_EQ(a.get(), std::vector<float>{1});
  EXPECT_EQ(b.get(), std::vector<float>{2});
}

TEST_F(NcclMessages, OfAnotherLengthAreNotTaken) {
  if (n < 2) return;
  const auto group = world.duplicate();
  OnDevice data(5);
  if (me == 0) {
    Work work = group->start({.operation = Operation::send, .root = 1, .tag = 3, .in = data.view()});
    EXPECT_THROW(work.wait(), PeerFailed);
  } else if (me == 1) {
    try {
      group->recv(data.view(0, 4), 0, 3);
      FAIL() << "taken";
    } catch (const MismatchError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("rank 0 sent f32 x 5"));
    }
  }
  world.barrier();
}

// Calls of a job of their own: the barriers of `world` move none of them on.
class NcclProgress : public NcclTest {
 protected:
  void open(const std::string& name) { apart = make_world(make_job(name), stream_.get()); }
  // The device comes to the end of what the stream holds, while no other rank is waited for on the host.
  [[nodiscard]] bool ends_on_device() const {
    const device::OwnEvent end(devices(), job()->process.device);
    end.record(stream_.get());
    const auto limit = std::chrono::steady_clock::now() + kLimit;
    while (!end.is_reached() && std::chrono::steady_clock::now() < limit) std::this_thread::sleep_for(1ms);
    return end.is_reached();
  }
  // A message from rank 0 to rank 1: `elsewhere` starts its half and makes no call, while the other one waits for its
  // stream.
  void arrives_while_elsewhere(int elsewhere) {
    if (n < 2) return;
    OnDevice data(me == 0 ? gift(0, 20000) : std::vector<float>(20000));
    const Call half = me == 0 ? Call{.operation = Operation::send, .root = 1, .in = data.view()}
                              : Call{.operation = Operation::recv, .root = 0, .out = data.view()};
    Work started;
    if (me == elsewhere) started = apart->start(half);
    if (me == 1 - elsewhere) {
      apart->run(half, kLimit);
      EXPECT_TRUE(ends_on_device()) << "rank " << elsewhere << " has started its half";
    }
    world.barrier();
    if (me == elsewhere) started.wait();
    EXPECT_TRUE(ends_on_device());
    if (me < 2) {
      EXPECT_EQ(data.get(), gift(0, 20000));
    }
  }
  static constexpr auto kLimit = 10s;  // nothing comes near it

  const device::OwnStream stream_{devices(), job()->process.device};
  std::unique_ptr<Communicator> apart;
};

TEST_F(NcclProgress, AMessageArrivesWhileItsSenderIsElsewhere) {
  open("sender-elsewhere");
  arrives_while_elsewhere(0);
}

TEST_F(NcclProgress, AMessageArrivesWhileItsReceiverIsElsewhere) {
  open("receiver-elsewhere");
  arrives_while_elsewhere(1);
}

TEST_F(NcclProgress, TwoRanksMayWaitForTheirStreamsBeforeTheirSends) {
  if (n < 2) return;
  open("both-ways");
  const int other = 1 - me;
  for (int round = 0; round < 3; ++round) {
    const OnDevice out(gift(me, 20000)), in(20000);
    Work sent;
    if (me < 2) sent = apart->start({.operation = Operation::send, .root = other, .in = out.view()});
    world.barrier();  // each receives at once: the first to do so has not seen that its own was taken
    if (me < 2) apart->recv(in.view(), other, 0, kLimit);
    EXPECT_TRUE(ends_on_device()) << "round " << round;
    world.barrier();
    if (me > 1) continue;
    sent.wait();
    stream_.synchronize();
    EXPECT_EQ(in.get(), gift(other, 20000));
  }
}

TEST_F(NcclProgress, CallsBehindAnotherGoInWhileTheirMemberIsElsewhere) {
  open("calls");
  constexpr std::size_t kCalls = 4, kCount = 20000;
  std::vector<OnDevice> data;
  std::vector<Work> works;
  for (std::size_t i = 0; i < kCalls; ++i) data.emplace_back(gift(me, kCount));
  for (const OnDevice& one : data)
    works.push_back(apart->start({.operation = Operation::all_reduce, .in = one.view(), .out = one.view()}));
  if (me != 0) {
    for (Work& work : works) work.wait(kLimit);
    EXPECT_TRUE(ends_on_device()) << "rank 0 has started all";
  }
  world.barrier();
  for (Work& work : works) work.wait();
  stream_.synchronize();
  for (const OnDevice& one : data) EXPECT_EQ(one.get(), sums(n, kCount));
}

// Lets no thread but the one that made it have a stream wait, as where a device is lost meanwhile.
class RefusesOtherThreads final : public device::RuntimeDecorator {
 public:
  using RuntimeDecorator::RuntimeDecorator;
  void wait(int device, device::Stream stream, device::Event event) override {
    if (std::this_thread::get_id() != own_) {
      ++refused;
      throw DeviceFailure("CUDA: cudaStreamWaitEvent: unspecified launch failure (cudaErrorLaunchFailure)");
    }
    RuntimeDecorator::wait(device, stream, event);
  }
  std::atomic<int> refused = 0;

 private:
  const std::thread::id own_ = std::this_thread::get_id();
};

TEST_F(NcclProgress, ACallThatTheThreadCannotPutInFails) {
  const auto refuses = std::make_shared<RefusesOtherThreads>(devices());
  // Of one rank: nobody's error comes first.
  const auto all = make_world(make_job("cannot-be-put-in", "60", refuses), stream_.get());
  apart = all->create_group(std::vector<int>{me});
  std::vector<OnDevice> data;
  std::vector<Work> works;
  for (int i = 0; i < 8; ++i) data.emplace_back(gift(me, 100));
  const auto call_all = [&] {  // the thread may be there before the last one is started
    for (const OnDevice& one : data)
      works.push_back(apart->start({.operation = Operation::all_reduce, .in = one.view(), .out = one.view()}));
    const auto limit = std::chrono::steady_clock::now() + kLimit;
    while (refuses->refused == 0 && std::chrono::steady_clock::now() < limit) std::this_thread::sleep_for(1ms);
    works.back().wait(kLimit);
  };
  EXPECT_THAT(call_all, testing::ThrowsMessage<DeviceFailure>(
                            testing::AllOf(testing::HasSubstr("[" + std::to_string(me) + "], rank 0"),
                                           testing::HasSubstr("cudaStreamWaitEvent"))));
  EXPECT_EQ(refuses->refused, 1);
  world.barrier();
}

TEST_F(NcclProgress, AMessageThatTheThreadCannotPutInFailsAsTheDevice) {
  if (n < 2) return;
  const auto refuses = std::make_shared<RefusesOtherThreads>(devices());
  apart = make_world(make_job("message-cannot-be-put-in", "60", me == 0 ? refuses : devices()), stream_.get());
  const OnDevice data(gift(me, 100));
  Work sent;
  if (me == 0) sent = apart->start({.operation = Operation::send, .root = 1, .in = data.view()});
  world.barrier();
  if (me == 1) {
    // It has taken the message, and learns of its peer's error; or it has put in its half before, and does not.
    try {
      apart->recv(data.view(), 0, 0, kLimit);
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("process 0"));
    }
  } else if (me == 0) {
    await([&] { return refuses->refused > 0; }, "rank 1 to take the message");
    EXPECT_THAT([&] { sent.wait(kLimit); }, testing::ThrowsMessage<DeviceFailure>(
                                                testing::AllOf(testing::HasSubstr("send"), testing::HasSubstr("rank 0"),
                                                               testing::HasSubstr("cudaStreamWaitEvent"))));
    EXPECT_THAT([&] { (void)apart->start({.operation = Operation::send, .root = 1, .in = data.view()}); },
                testing::Throws<PeerFailed>());
  }
  world.barrier();
}

// A producer that is slow, in the caller's stream, and a consumer after the call: nothing waits on the host.
TEST_F(NcclStreams, ACallIsDoneInTheOrderOfTheCallersStream) {
  const int device = job()->process.device;
  const device::OwnStream stream(devices(), device);
  world.use_stream(stream.get());
  OnDevice source(gift(me, 1000)), in(1000), out(1000), after(1000);
  for (const bool is_started : {false, true}) {
    devices()->pause(device, 30ms, stream.get());
    devices()->copy(device, in.view().data, source.view().data, in.view().bytes(), stream.get());
    const Call call{.operation = Operation::all_reduce, .in = in.view(), .out = out.view()};
    const Call exchange[] = {{.operation = Operation::send, .root = me, .in = out.view()},
                             {.operation = Operation::recv, .root = me, .out = after.view()}};
    if (is_started)
      world.start(call).wait();
    else
      world.run(call);
    world.start(exchange).wait();
    stream.synchronize();
    EXPECT_EQ(after.get(), sums(n, 1000));
    in.put(std::vector<float>(1000, 0));
    after.put(std::vector<float>(1000, 0));
  }
}

// Of a call whose producer is slow: the stream that is the caller's then meets the result.
TEST_F(NcclStreams, TheStreamOfEachWaitAndOfADropGoesOnBehindTheCall) {
  const int device = job()->process.device;
  const device::OwnStream before(devices(), device), first(devices(), device), second(devices(), device);
  OnDevice data(1000), seen(1000), other(1);
  const auto start = [&] {
    data.put(gift(me, 1000));
    world.use_stream(before.get());
    devices()->pause(device, 30ms, before.get());
    return world.start({.operation = Operation::all_reduce, .in = data.view(), .out = data.view()});
  };
  const auto expect_result_in = [&](device::Stream stream) {
    devices()->copy(device, seen.view().data, data.view().data, data.view().bytes(), stream);
    devices()->synchronize(device, stream);
    EXPECT_EQ(seen.get(), sums(n, 1000));
  };
  {
    Work work = start();
    for (const device::OwnStream* const stream : {&first, &second}) {
      world.use_stream(stream->get());
      work.wait();
      expect_result_in(stream->get());
    }
  }
  {
    const Work dropped = start();
    world.all_reduce(other.view(), other.view(), ReduceOp::sum);  // after it all have made the first
    world.use_stream(first.get());
  }
  expect_result_in(first.get());
  world.use_stream(nullptr);
}

TEST_F(NcclStreams, TestIsTrueWhenTheDeviceIsDone) {
  const int device = job()->process.device;
  OnDevice data(gift(me, 100));
  const device::OwnEvent produced(devices(), device);
  devices()->pause(device, 50ms, nullptr);
  produced.record(nullptr);
  Work work = world.start({.operation = Operation::all_reduce, .in = data.view(), .out = data.view()});
  for (const bool is_waited_for : {false, true}) {
    if (is_waited_for) work.wait();
    const bool told = work.test();  // of a moment before the event is looked at
    EXPECT_FALSE(told && !produced.is_reached()) << "the device is not done";
  }
  await([&] { return work.test(); }, "the device and the other ranks");
  EXPECT_EQ(data.get(), sums(n, 100));
}

}  // namespace
}  // namespace plumbline::subject::nccl
