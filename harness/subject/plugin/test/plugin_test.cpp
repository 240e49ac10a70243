// Plumbline's side of the plugin interface, in one process of one rank.
#include <array>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/subject/backend_name.hpp"
#include "harness/subject/plugin/communicator.hpp"
#include "harness/subject/plugin/reply.hpp"
#include "harness/subject/plugin/translation.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::subject::plugin {
namespace {

using comm::Capability;
using comm::DType;
using comm::Operation;
using testing::HasSubstr;

std::string file_of(const std::string& name) { return std::string(PLUGINS) + "/lib" + name + ".so"; }
std::shared_ptr<Job> job_of(const std::string& name) {
  return std::make_shared<Job>(BackendOptions{{"library", file_of(name)}}, Place{});
}
std::unique_ptr<comm::Communicator> world_of(const std::string& name) {
  return std::make_unique<PluginCommunicator>(Group::world(job_of(name), 1));
}

template <class E>
std::string words_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  }
  ADD_FAILURE() << "no such error";
  return {};
}

// ---- the library and its struct ----

TEST(Library, IsRejectedInOneLine) {
  const auto words = [](const std::string& name) {
    return words_of<RuntimeFailure>([&] { (void)Library(file_of(name)); });
  };
  EXPECT_EQ(words("plugin_other_version"),
            "backend plugin: '" + file_of("plugin_other_version") +
                "': it has interface version 7, and this program has 1; compile it with this program's "
                "plumbline_backend.h");
  EXPECT_THAT(words("plugin_small_struct"), HasSubstr("its struct has 64 bytes, and that of interface version 1 has"));
  EXPECT_THAT(words("plugin_no_symbol"), HasSubstr("does not export plumbline_backend_get()"));
  EXPECT_THAT(words_of<InvalidArgument>([] { (void)Library("/nowhere/libacme.so"); }),
              HasSubstr("'/nowhere/libacme.so' is not a file"));
  EXPECT_THAT(words_of<RuntimeFailure>([] { (void)Library("/etc/passwd"); }), HasSubstr("cannot be loaded"));
}

TEST(Library, HasAStructWithAllThatIsRequired) {
  const Library sample(file_of("unix_sockets"));
  EXPECT_EQ(problem_of(&*sample), "");
  EXPECT_EQ(problem_of(nullptr), "plumbline_backend_get() returns null");
  const auto problem = [&](const std::function<void(plumbline_backend&)>& change) {
    plumbline_backend changed = *sample;
    change(changed);
    return problem_of(&changed);
  };
  EXPECT_EQ(problem([](auto& one) { one.size += 64; }), "") << "fields of a later header are at the end";
  EXPECT_EQ(problem([](auto& one) { one.run = nullptr; }), "run is null; it is required");
  EXPECT_EQ(problem([](auto& one) { one.open = nullptr; }), "open is null; it is required");
  EXPECT_EQ(problem([](auto& one) { one.destroy_group = nullptr; }), "destroy_group is null; it is required");
  EXPECT_EQ(problem([](auto& one) { one.drop = nullptr; }), "drop is null; start requires it");
  EXPECT_EQ(problem([](auto& one) { one.start = nullptr, one.drop = nullptr; }), "");
  EXPECT_EQ(problem([](auto& one) { one.deregister_memory = nullptr; }),
            "deregister_memory is null; register_memory requires it");
  EXPECT_EQ(problem([](auto& one) { one.deallocate = [](plumbline_group*, void*) {}; }),
            "allocate is null; deallocate requires it");
  EXPECT_EQ(problem([](auto& one) { one.name = nullptr; }), "name is empty");
  EXPECT_EQ(problem([](auto& one) { one.library_version = nullptr; }), "library_version is null");
  EXPECT_THAT(problem([](auto& one) { one.dtypes = 0; }), HasSubstr("dtypes is 0"));
  EXPECT_THAT(problem([](auto& one) { one.claims |= 0x80000000u; }), HasSubstr("claims has bits 0x80000000"));
  EXPECT_THAT(problem([](auto& one) { one.reductions &= ~PLUMBLINE_BIT(PLUMBLINE_PRODUCT); }),
              HasSubstr("reductions lacks PLUMBLINE_PRODUCT"));
  EXPECT_THAT(problem([](auto& one) { one.operations |= 1; }), HasSubstr("operations has bits 0x1"));
}

// One that was built before run_scaled: what lies after its struct is not looked at.
TEST(Library, OfAnOlderSizeHasWhatItsStructHolds) {
  const Library older(file_of("plugin_older_struct")), now(file_of("plugin_faults"));
  ASSERT_EQ(older->size, offsetof(plumbline_backend, run_scaled));
  EXPECT_TRUE(capabilities_of(*now).has(Capability::scaled_sums));
  EXPECT_FALSE(capabilities_of(*older).has(Capability::scaled_sums));
  EXPECT_FALSE(capabilities_of(*older).has(Capability::shrink));
  EXPECT_TRUE(capabilities_of(*older).has(Capability::all_gather_v));
  std::vector<float> numbers(2);
  auto world = world_of("plugin_older_struct");
  EXPECT_THAT(words_of<Unsupported>([&] {
                world->run_scaled({.operation = Operation::all_reduce,
                                   .in = comm::ConstBuffer::of(numbers),
                                   .out = comm::Buffer::of(numbers)},
                                  2);
              }),
              HasSubstr("has no scaled_sums"));
}

TEST(Library, SaysWhatItCan) {
  const Library sample(file_of("unix_sockets"));
  const comm::Capabilities all = capabilities_of(*sample);
  EXPECT_EQ(all.backend, "unix_sockets");
  EXPECT_EQ(all.version, "Unix sockets 1.0");
  EXPECT_THAT(
      all.claims,
      testing::UnorderedElementsAre(
          Capability::nonblocking, Capability::coalescing, Capability::groups, Capability::point_to_point,
          Capability::wait_timeout, Capability::blocking_timeout, Capability::names_missing, Capability::rank_order,
          Capability::equal_results, Capability::all_gather_v, Capability::reduce_scatter_v, Capability::all_to_all_v,
          Capability::bool_reductions, Capability::scaled_sums, Capability::shrink, Capability::complex_sums,
          Capability::complex_products, Capability::registered_memory, Capability::grow, Capability::strided));
  EXPECT_THAT(all.dtypes,
              testing::ElementsAre(DType::f32, DType::f64, DType::i32, DType::i64, DType::u8, DType::boolean,
                                   DType::f8_e4m3, DType::f8_e5m2, DType::c64, DType::c128));
  plumbline_backend older = *sample;
  older.dtypes = PLUMBLINE_ALL_DTYPES;
  older.claims &= 0x3ffu;
  EXPECT_THAT(capabilities_of(older).dtypes, testing::ElementsAreArray(comm::kAllDTypes));
  EXPECT_FALSE(capabilities_of(older).has(Capability::bool_reductions));
  plumbline_backend less = *sample;
  less.start = nullptr;
  less.create_group = nullptr;
  less.run_scaled = nullptr;
  less.shrink = nullptr;
  less.run_strided = nullptr;
  less.register_memory = nullptr;
  less.grow = nullptr;
  less.operations &= ~PLUMBLINE_BIT(PLUMBLINE_RECV);
  const comm::Capabilities few = capabilities_of(less);
  for (const Capability gone :
       {Capability::nonblocking, Capability::coalescing, Capability::wait_timeout, Capability::groups,
        Capability::point_to_point, Capability::scaled_sums, Capability::shrink, Capability::registered_memory,
        Capability::grow, Capability::strided})
    EXPECT_FALSE(few.has(gone)) << name_of(gone);
  EXPECT_THAT(few.notes, testing::Contains("not supported: recv"));
}

// ---- errors ----

TEST(Reply, IsTheErrorOfItsStatus) {
  const auto reply = [](plumbline_status status, const std::string& message, std::vector<std::int32_t> missing = {},
                        bool names_ended = false) {
    call([] { return "barrier() on world [0 1], rank 0"; },
         [&](plumbline_error* error) {
           std::ranges::copy(message, error->message);
           error->message[message.size()] = '\0';
           std::ranges::copy(missing, error->missing);
           error->missing_count = static_cast<std::int32_t>(missing.size());
           return status;
         },
         names_ended);
  };
  EXPECT_NO_THROW(reply(PLUMBLINE_OK, "not looked at"));
  EXPECT_EQ(words_of<InvalidArgument>([&] { reply(1, "no\nsuch\toption\n"); }),
            "barrier() on world [0 1], rank 0: no such option");
  EXPECT_THAT(words_of<Unsupported>([&] { reply(2, ""); }), HasSubstr(": unsupported"));
  EXPECT_THAT(words_of<comm::MismatchError>([&] { reply(3, "7 and 8"); }), HasSubstr(": 7 and 8"));
  EXPECT_EQ(words_of<comm::TimeoutError>([&] { reply(4, "20 ms passed", {1, 3}); }),
            "barrier() on world [0 1], rank 0: 20 ms passed; waited for ranks 1, 3");
  EXPECT_THAT(words_of<comm::TimeoutError>([&] { reply(4, "", {2}); }), HasSubstr("; waited for rank 2"));
  EXPECT_THAT(words_of<comm::PeerFailed>([&] { reply(5, "gone"); }), HasSubstr(": gone"));
  EXPECT_EQ(words_of<comm::PeerFailed>([&] { reply(5, "gone", {1}, true); }),
            "barrier() on world [0 1], rank 0: gone; waited for rank 1");
  EXPECT_EQ(words_of<comm::PeerFailed>([&] { reply(5, "gone", {1}); }), "barrier() on world [0 1], rank 0: gone")
      << "without shrink they may be alive";
  EXPECT_THAT(words_of<RuntimeFailure>([&] { reply(6, "no socket"); }), HasSubstr(": no socket"));
  EXPECT_THAT(words_of<RuntimeFailure>([&] { reply(99, "odd"); }),
              HasSubstr("returned status 99, which plumbline_backend.h does not have: odd"));
  EXPECT_THAT(words_of<RuntimeFailure>([&] { reply(-1, ""); }), HasSubstr("returned status -1"));
}

TEST(Reply, OfAnExceptionNamesIt) {
  const auto thrown = [](auto what) {
    return words_of<RuntimeFailure>(
        [&] { call([] { return "barrier()"; }, [&](plumbline_error*) -> plumbline_status { throw what; }); });
  };
  EXPECT_EQ(thrown(std::runtime_error("oh\nno")), "barrier(): threw a C++ exception through the C interface: oh no");
  EXPECT_EQ(thrown(7), "barrier(): threw a C++ exception through the C interface");
}

TEST(Reply, KeepsToItsRoom) {
  const std::string words = words_of<RuntimeFailure>([] {
    call([] { return "barrier()"; },
         [](plumbline_error* error) -> plumbline_status {
           std::fill_n(error->message, error->message_capacity, 'x');
           error->missing_count = 1 << 30;
           return PLUMBLINE_FAILURE;
         });
  });
  EXPECT_EQ(words, "barrier(): " + std::string(1023, 'x'));
}

// ---- groups ----

// Members may have tried a list more or less often before it comes about: all give the group one id.
TEST(Groups, ThatDoNotComeAboutAreNotCounted) {
  const auto job = std::make_shared<Job>(
      BackendOptions{{"library", file_of("plugin_faults")}, {"fault", "creates_no_group"}}, Place{});
  const auto world = Group::world(job, 1);
  for (int i = 0; i < 2; ++i)
    EXPECT_THAT(words_of<RuntimeFailure>([&] { (void)world->create(std::array{0}); }), HasSubstr("no group"));
  EXPECT_EQ(job->next_creation(world->identity.id, std::array{0}), 1);
}

TEST(Groups, ThatAreShrunkAreToldFromThoseThatAreCreated) {
  const auto world = Group::world(job_of("unix_sockets"), 1);
  const auto shrunk = world->shrink(std::array{0}), created = world->create(std::array{0}),
             again = world->shrink(std::array{0});
  EXPECT_NE(shrunk->identity.id, created->identity.id);
  EXPECT_NE(shrunk->identity.id, again->identity.id);
  EXPECT_NE(again->identity.id, created->identity.id);
  EXPECT_EQ(again->identity.name, "[0] #2") << "one was created, and this is the second that is shrunk";
}

TEST(Groups, AnInvitationIsReadAsItWasWritten) {
  const comm::Group group{.name = "[2 0]", .ranks = {2, 0}, .id = 17};
  const Invitation made = Invitation::to(group, 1, "port 12, host a"), again = Invitation::to(group, 1);
  const Invitation read = Invitation::parse(made.text());
  EXPECT_EQ(read.id, made.id);
  EXPECT_NE(read.id, again.id);
  EXPECT_EQ(read.members, group.ranks);
  EXPECT_EQ(read.words, "port 12, host a");
  EXPECT_EQ(Invitation::parse(again.text()).words, "");
  EXPECT_EQ(read.with(std::array{5, 1}, 6), (std::vector{2, 0, 5, 1}));
  EXPECT_EQ(words_of<InvalidArgument>([&] { (void)read.with(std::array{6}, 6); }),
            "newcomer 6 is not a rank of the job of 6");
  EXPECT_EQ(words_of<InvalidArgument>([&] { (void)read.with(std::array{5, 0}, 6); }), "newcomer 0 is a member already");
  EXPECT_EQ(read.group, group.id);
  read.use();
  EXPECT_THAT(words_of<InvalidArgument>([&] { made.use(); }), HasSubstr("has served"));
  EXPECT_NO_THROW(again.use());
  for (const char* const bad : {"", "plumbline", "plumbline 1 2 ", "plumbline 00000000000000ff 0000000000000011 1,,2 "})
    EXPECT_THAT(words_of<InvalidArgument>([&] { (void)Invitation::parse(bad); }), HasSubstr("is no invitation")) << bad;
}

TEST(Groups, DoNotGrowByTheInvitationOfAnother) {
  const auto world = Group::world(job_of("unix_sockets"), 1);
  const comm::Group other{.name = "[1 2]", .ranks = {1, 2}, .id = 17}, twin{.name = "", .ranks = {0}, .id = 18};
  EXPECT_THAT(words_of<InvalidArgument>([&] { (void)world->grow(Invitation::to(twin, 0), std::array{3}); }),
              HasSubstr("that is not this one"));
  EXPECT_THAT(words_of<InvalidArgument>([&] { (void)world->grow(Invitation::to(other, 0), std::array{3}); }),
              HasSubstr("the invitation is to a group of ranks 1 2"));
}

TEST(Groups, RegisteredMemoryOfTheSampleEndsOnce) {
  const auto world = Group::world(job_of("unix_sockets"), 1);
  float memory[4] = {};
  const std::uint64_t first = world->register_memory(memory, sizeof memory),
                      second = world->register_memory(memory, sizeof memory);
  EXPECT_NE(first, second);
  world->deregister(first);
  EXPECT_THAT(words_of<InvalidArgument>([&] { world->deregister(first); }),
              HasSubstr("deregister_memory(" + std::to_string(first) +
                        ") on world [0], rank 0: it is no registration of the group, or has ended"));
}

// ---- calls ----

TEST(Calls, HaveTheNumbersOfTheInterface) {
  float in[6] = {}, out[6] = {};
  const comm::Call gather{
      .operation = Operation::gather, .root = 2, .in = {in, 2, DType::f32}, .out = {out, 6, DType::f32}};
  const plumbline_call at_root = translated(gather, 2, 3);
  EXPECT_EQ(at_root.operation, PLUMBLINE_GATHER);
  EXPECT_EQ(at_root.dtype, PLUMBLINE_F32);
  EXPECT_EQ(at_root.reduction, 0);
  EXPECT_EQ(at_root.root, 2);
  EXPECT_EQ(at_root.count, 2);
  EXPECT_EQ(at_root.out, out);
  EXPECT_EQ(translated(gather, 0, 3).out, nullptr) << "not used on this rank";
  const plumbline_call barrier = translated({.operation = Operation::barrier}, 0, 3);
  EXPECT_EQ(barrier.operation, PLUMBLINE_BARRIER);
  EXPECT_EQ(barrier.dtype, PLUMBLINE_U8);
  EXPECT_EQ(barrier.root, -1);
  const plumbline_call message =
      translated({.operation = Operation::send, .root = 1, .tag = 7, .in = {in, 2, DType::bf16}}, 0, 3);
  EXPECT_EQ(message.tag, 7);
  EXPECT_EQ(message.dtype, PLUMBLINE_BF16);
  EXPECT_EQ(number_of(comm::ReduceOp::product), PLUMBLINE_PRODUCT);
  EXPECT_EQ(nanoseconds_of({}), PLUMBLINE_NO_LIMIT);
  EXPECT_EQ(nanoseconds_of(std::chrono::nanoseconds(-5)), 0);
  EXPECT_EQ(nanoseconds_of(std::chrono::milliseconds(20)), 20'000'000);
}

// Where functions that look numbers up are inlined into each other, too.
TEST(Calls, OfUnevenBlocksHaveTheNumbersOfTheInterface) {
  const std::int64_t counts[] = {1, 2, 3};
  constexpr std::array numbers{PLUMBLINE_F16, PLUMBLINE_BF16, PLUMBLINE_F32,  PLUMBLINE_F64,     PLUMBLINE_I32,
                               PLUMBLINE_I64, PLUMBLINE_U8,   PLUMBLINE_BOOL, PLUMBLINE_F8_E4M3, PLUMBLINE_F8_E5M2};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const comm::UnevenCall call{.operation = Operation::all_gather,
                                .in = {nullptr, 0, static_cast<DType>(i)},
                                .out = {nullptr, 0, static_cast<DType>(i)},
                                .out_counts = counts};
    const plumbline_uneven_call translation = translated(call);
    EXPECT_EQ(translation.operation, PLUMBLINE_ALL_GATHER);
    EXPECT_EQ(translation.dtype, numbers[i]);
    EXPECT_EQ(translation.in_counts, nullptr);
    EXPECT_EQ(translation.out_counts, counts);
  }
}

TEST(Calls, ReachThePlugin) {
  const auto world = world_of("unix_sockets");
  std::vector<float> in{1, 2, 3}, out(3);
  world->all_reduce(comm::ConstBuffer::of(in), comm::Buffer::of(out), comm::ReduceOp::avg);
  EXPECT_EQ(out, in);
  const auto twin = world->duplicate();
  EXPECT_EQ(twin->group().name, "[0]");
  EXPECT_NE(twin->group().id, world->group().id);
  std::vector<float> received(3);
  const comm::Call calls[] = {{.operation = Operation::send, .root = 0, .tag = 4, .in = comm::ConstBuffer::of(in)},
                              {.operation = Operation::recv, .root = 0, .tag = 4, .out = comm::Buffer::of(received)}};
  twin->start(calls).wait();
  EXPECT_EQ(received, in);
  comm::Work lonely = twin->start(calls[1]);
  EXPECT_FALSE(lonely.test());
  EXPECT_THAT(words_of<comm::TimeoutError>([&] { lonely.wait(std::chrono::milliseconds(5)); }),
              testing::EndsWith("; waited for rank 0"));
  EXPECT_THROW(twin->barrier(), comm::PeerFailed);
  world->barrier();
}

TEST(Calls, AreRejectedThatThePluginDoesNotHave) {
  const auto world = world_of("plugin_meagre");
  std::vector<float> in{1, 2}, out(2);
  std::vector<double> wide{1};
  const auto from = comm::ConstBuffer::of(in);
  const auto to = comm::Buffer::of(out);
  world->all_reduce(from, to, comm::ReduceOp::sum);
  EXPECT_THAT(words_of<Unsupported>([&] { world->broadcast(to, 0); }),
              HasSubstr("the operation is not supported by backend unix_sockets"));
  EXPECT_THROW(world->all_reduce(from, to, comm::ReduceOp::max), Unsupported);
  EXPECT_THROW(world->all_reduce(comm::ConstBuffer::of(wide), comm::Buffer::of(wide), comm::ReduceOp::sum),
               Unsupported);
  EXPECT_THROW((void)world->start({.operation = Operation::barrier}), Unsupported);
  EXPECT_THROW((void)world->duplicate(), Unsupported);
  const comm::Device cuda{comm::Device::Kind::cuda, 0};
  EXPECT_THROW(
      world->all_reduce({in.data(), 2, DType::f32, cuda}, {out.data(), 2, DType::f32, cuda}, comm::ReduceOp::sum),
      Unsupported);
  world->barrier();
}

TEST(Groups, AreAbortedHereWhereThePluginCannot) {
  const auto world = world_of("unix_sockets");
  const auto middle = world->duplicate();
  const auto inner = middle->duplicate();
  middle->abort("enough of this");
  EXPECT_THAT(words_of<comm::PeerFailed>([&] { middle->barrier(); }), HasSubstr("enough of this"));
  EXPECT_THAT(words_of<comm::PeerFailed>([&] { inner->barrier(); }), HasSubstr("enough of this"));
  world->barrier();
}

TEST(Groups, OutliveTheirCommunicatorForAWork) {
  auto world = world_of("unix_sockets");
  comm::Work work = world->start({.operation = Operation::barrier});
  world.reset();
  work.wait();
}

// ---- names ----

TEST(Names, OfAPluginHaveItsFile) {
  EXPECT_EQ(module_of("plugin:./libacme.so"), "plugin");
  EXPECT_EQ(module_of("mpi"), "mpi");
  EXPECT_EQ(plugin_file_of("plugin:./libacme.so"), "./libacme.so");
  EXPECT_EQ(file_name_of("plugin:/opt/lib/libacme.so"), "plugin-libacme");
  const std::string here = std::filesystem::current_path().string();
  EXPECT_EQ(options_of("plugin:./libacme.so", {{"a", "b"}}),
            (BackendOptions{{"a", "b"}, {"library", here + "/libacme.so"}}));
  EXPECT_EQ(options_of("mpi", {{"a", "b"}}), (BackendOptions{{"a", "b"}}));
}

}  // namespace
}  // namespace plumbline::subject::plugin
