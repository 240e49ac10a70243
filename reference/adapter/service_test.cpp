#include "reference/adapter/service.hpp"

#include <new>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/adapter/reference_service.hpp"
#include "reference/comm/errors.hpp"

// What a whole process answers is in adapter_test.py; here what a component's operation cannot do to the
// service.
namespace plumbline::adapter {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

AdapterService service_that(AdapterService::Operation operation) {
  AdapterService service("test", "1", {});
  service.add({"op",
               "",
               {"plumbline"},
               {{"n", "integer", "a number"}, {"other", "text", "of others", "null", {"a"}, {"torch"}}},
               {}},
              std::move(operation));
  return service;
}

json reply_of(const AdapterService& service, const std::string& args = "{}") {
  return json::parse(service.handle(R"({"id":7,"op":"op","args":)" + args + "}"));
}

json error(const std::string& kind, const std::string& message) {
  return {{"id", 7}, {"error", {{"kind", kind}, {"message", message}}}};
}

TEST(AdapterService, ReportsEachErrorUnderItsKind) {
  EXPECT_EQ(reply_of(service_that([](const Arguments&) -> json { throw InvalidArgument("a"); })),
            error("invalid_argument", "a"));
  EXPECT_EQ(reply_of(service_that([](const Arguments&) -> json { throw OutOfRange("b"); })),
            error("out_of_range", "b"));
  EXPECT_EQ(reply_of(service_that([](const Arguments&) -> json { throw NotFound("c"); })), error("not_found", "c"));
  EXPECT_EQ(reply_of(service_that([](const Arguments&) -> json { throw Unsupported("d"); })),
            error("unsupported", "d"));
  EXPECT_EQ(reply_of(service_that([](const Arguments&) -> json { throw StateError("e"); })), error("state", "e"));
  EXPECT_EQ(reply_of(service_that([](const Arguments&) -> json { throw RuntimeFailure("f"); })), error("failed", "f"));
}

TEST(AdapterService, SurvivesEveryOtherException) {
  EXPECT_EQ(reply_of(service_that([](const Arguments&) -> json { throw std::bad_alloc(); })),
            error("failed", "out of memory"));
  EXPECT_EQ(reply_of(service_that([](const Arguments&) -> json { throw std::logic_error("g"); })),
            error("failed", "g"));
  EXPECT_EQ(reply_of(service_that([](const Arguments&) -> json { throw 1; })),
            error("failed", "an exception of an unknown type"));
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)  // which end a process that asks for so much
  EXPECT_EQ(
      reply_of(service_that([](const Arguments& a) { return json(std::vector<int>(a.get<std::size_t>("n")).size()); }),
               R"({"n":1000000000000000})")["error"]["kind"],
      "failed");
#endif
}

TEST(AdapterService, RefusesFieldsThatAnOperationDidNotAskFor) {
  const auto service = service_that([](const Arguments& arguments) { return json(arguments.get<int>("n")); });
  EXPECT_EQ(reply_of(service, R"({"n":5})"), (json{{"id", 7}, {"result", 5}}));
  EXPECT_EQ(reply_of(service, R"({"n":5,"m":null})"),
            error("invalid_argument", "op: unknown field 'm'; in the convention plumbline there are n"));
  EXPECT_EQ(reply_of(service, R"({"n":5,"other":"a"})"),
            error("invalid_argument", "op: unknown field 'other'; in the convention plumbline there are n"));
  EXPECT_EQ(reply_of(service_that([](const Arguments&) { return json(1); }), R"({"n":5})"),
            error("invalid_argument", "op: unknown field 'n'; there are "))
      << "in its row, and not read";
}

TEST(AdapterService, WritesMessagesThatAreNoUtf8) {
  const auto reply = reply_of(service_that([](const Arguments&) -> json { throw NotFound("file \xff"); }));
  EXPECT_EQ(reply, error("not_found", "file \xEF\xBF\xBD"));
}

TEST(AdapterService, RefusesToWriteALineThatIsTooLong) {
  const auto service = service_that([](const Arguments&) { return json(std::string(std::size_t{65} << 20, 'x')); });
  const json reply = reply_of(service);
  EXPECT_EQ(reply["error"]["kind"], "failed");
  EXPECT_THAT(reply["error"]["message"], HasSubstr("67108864"));
}

TEST(AdapterService, ListsItsOperationsSorted) {
  AdapterService service("test", "3", {{"torch", "2.13"}});
  for (const char* name : {"b.x", "a.z", "a.y"})
    service.add({name, "", {"torch"}, {{"dtype", "text", "type", "null", name[0] == 'b' ? Words{"f32"} : Words{}}}, {}},
                [](const Arguments&) { return json(); });
  const json hello = json::parse(service.handle(R"({"id":1,"op":"hello","args":{"protocol":1}})"));
  EXPECT_EQ(hello, (json{{"id", 1},
                         {"result",
                          {{"protocol", 1},
                           {"name", "test"},
                           {"version", "3"},
                           {"ops", {"a.y", "a.z", "b.x"}},
                           {"options", {{"b.x", {{"dtype", {"f32"}}}}}},
                           {"conventions", {{"torch", "2.13"}}}}}}));
}

TEST(OperationRow, AsksForFieldsThatStandInTheQuestion) {
  const OperationRow row{"op",
                         "",
                         {"plumbline"},
                         {where_named({"sharded", "boolean", "", "false"}),
                          where_named({"steps.buffers", "any", "", kOptional}),
                          {"dtype", "text", "", kOptional}}};
  const auto asked = [&](const char* args) { return row.options_asked(json::parse(args)); };
  EXPECT_EQ(asked(R"({"dtype": "f16", "steps": [[{"buffers": null}, {}, 3]]})"), Options());
  EXPECT_EQ(asked(R"({"sharded": false})"), (Options{{"fields", {"sharded"}}}));
  EXPECT_EQ(asked(R"({"sharded": true, "steps": [[{}, {"buffers": []}]]})"),
            (Options{{"fields", {"sharded", "steps.buffers"}}}));
}

TEST(AdapterService, HasRowsForTheFieldsOfObjectsUnderTheirPaths) {
  AdapterService service("test", "1", {});
  service.add({"op",
               "",
               {"plumbline", "torch"},
               {with_fields({"views", "map of object", "views", kOptional, {}, {"torch"}},
                            {{"*.shape", "list of integer", "sizes"}})},
               {{"lists", "list of object", "lists", {{"first", "integer", "first"}}}}},
              [](const Arguments&) { return json(); });
  const OperationRow& row = service.row("op");
  ASSERT_NE(row.find("views.any.shape"), nullptr);
  EXPECT_EQ(row.find("views.any.shape")->conventions, Words{"torch"});
  for (const char* none : {"views.any", "views.any.shape.more", "views.any.size", "view.any.shape"})
    EXPECT_EQ(row.find(none), nullptr);
  EXPECT_EQ(row.results.back().name, "lists.first");
  EXPECT_TRUE(names_fields(row.arguments, "views.any"));
  EXPECT_FALSE(names_fields(row.arguments, "views.any.shape"));
}

TEST(AdapterService, TakesANameOnce) {
  auto service = service_that([](const Arguments&) { return json(); });
  for (const char* taken : {"op", "hello"}) {
    const OperationRow row{.name = taken, .what = "", .conventions = {}, .arguments = {}, .results = {}};
    EXPECT_THAT([&] { service.add(row, {}); }, ThrowsMessage<InvalidArgument>(HasSubstr(taken)));
  }
}

TEST(AdapterService, NamesWhatIsWrongWithARingSum) {
  const auto message = [service = reference_service()](const std::string& args) -> std::string {
    return json::parse(service.handle(R"({"id":1,"op":"comm.ring_sum","args":)" + args + "}"))["error"]["message"];
  };
  const auto with = [&](const std::string& fields) {
    return message(R"({"world_size":2,"dtype":"float32",)" + fields + "}");
  };
  EXPECT_EQ(with(R"("elements":1,"op":"all_reduce","inputs":[[1]])"),
            "comm.ring_sum: inputs must have a list for each of the 2 ranks, got 1");
  EXPECT_EQ(with(R"("elements":1,"op":"all_reduce","inputs":[[1],[1,2]])"),
            "comm.ring_sum: inputs[1] must have 1 elements, got 2");
  EXPECT_EQ(with(R"("elements":1,"op":"reduce","dst":1,"group":[0],"inputs":[[1],[1]])"),
            "comm.ring_sum: dst must be a rank of the group [0], got 1");
  EXPECT_EQ(with(R"("elements":1,"op":"reduce","inputs":[[1],[1]])"),
            "comm.ring_sum: dst is missing; op reduce needs the rank that gets the sum");
  EXPECT_EQ(with(R"("elements":1,"op":"all_reduce","group":[0,2],"inputs":[[1],[1]])"),
            "comm.ring_sum: group has rank 2, world_size is 2");
  EXPECT_EQ(with(R"("elements":1,"op":"all_reduce","inputs":[[1],[1e39]])"),
            "comm.ring_sum: inputs has 1e+39, too large for the dtype; write \"inf\" for infinity");
  EXPECT_EQ(message(R"({"dtype":"float8"})"),
            "comm.ring_sum: dtype must be one of float16, bfloat16, float32, float64, got 'float8'");
}

}  // namespace
}  // namespace plumbline::adapter
