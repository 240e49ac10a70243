#include "reference/adapter/describe.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/adapter/arguments.hpp"
#include "reference/adapter/reference_service.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::adapter {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::ThrowsMessage;

// One operation with an argument of each sort.
AdapterService toys() {
  AdapterService service("toys", "1", {});
  service.add({"toys.count",
               "counts boxes | bags",
               {"plumbline", "torch"},
               {with_fields({"boxes", "list of object", "the boxes"}, {{"bytes", "integer [bytes]", "size"}}),
                {"sort", "text", "their order", R"("up")", {"up", "down"}},
                {"bags", "integer", "of bags", kOptional, {}, {"torch"}}},
               {{"count", "integer", "how many there are", {}}},
               R"({"boxes": [{"bytes": 8}]})",
               {{"not_found", "there is no box"}}},
              [](const Arguments& arguments) {
                json boxes = arguments.get<json>("boxes");
                (void)arguments.get<std::string>("sort", "up");
                return json{{"count", boxes.size()}};
              });
  return service;
}

TEST(Description, IsAPageOfText) {
  EXPECT_EQ(describe(toys(), "toys.count", Format::text), R"(toys.count: counts boxes | bags

arguments
  convention   text             default "plumbline"  whose rule is asked for; one of plumbline, torch
  boxes        list of object   required             the boxes
  boxes.bytes  integer [bytes]  required             size
  sort         text             default "up"         their order; one of up, down
  bags         integer          optional             of bags (convention torch)

  an adapter may have some values alone of sort: "options" of its greeting names them

result
  count  integer  how many there are

errors
  invalid_argument  a required field is missing, a field is unknown, or a value has another type
  out_of_range      an integer does not fit into its type
  unsupported       the operation does not have the convention
  not_found         there is no box

example
  {"id":1,"op":"toys.count","args":{"boxes":[{"bytes":8}]}}
  {"id":1,"result":{"count":1}}
)");
}

TEST(Description, IsMarkdown) {
  const std::string page = describe(toys(), "toys.count", Format::md);
  EXPECT_THAT(page, HasSubstr("## `toys.count`\ncounts boxes | bags\n"));
  EXPECT_THAT(page, HasSubstr("| `boxes.bytes` | integer [bytes] | required | size |\n"));
  EXPECT_THAT(page, HasSubstr("| `not_found` | there is no box |\n"));
  EXPECT_EQ(describe(toys(), Format::md),
            "| operation | conventions | arguments | result |\n| --- | --- | --- | --- |\n"
            "| `toys.count`: counts boxes \\| bags | `plumbline`, `torch` | `boxes` (list of object, required) the "
            "boxes: `bytes`<br>"
            "`sort` (text, default \"up\") their order; one of up, down<br>`bags` (integer, optional) of bags "
            "(convention torch) "
            "| `count` (integer) how many there are |\n");
}

TEST(Description, IsJson) {
  const json page = json::parse(describe(toys(), "toys.count", Format::json));
  EXPECT_EQ(page["arguments"][1],
            json::parse(R"({"name": "boxes", "type": "list of object", "what": "the boxes", "required": true,
                                                  "default": null, "options": [], "conventions": []})"));
  EXPECT_EQ(page["arguments"][3]["default"], "up");
  EXPECT_EQ(page["errors"].back(), json::parse(R"({"kind": "not_found", "when": "there is no box"})"));
  EXPECT_EQ(page["example"]["reply"], json::parse(R"({"id": 1, "result": {"count": 1}})"));
  const json all = json::parse(describe(toys(), Format::json));
  EXPECT_EQ(all["protocol"], 1);
  EXPECT_EQ(all["operations"][0]["name"], "toys.count");
}

TEST(Description, ListsAllOperationsByALine) {
  EXPECT_EQ(describe(toys(), Format::text), "  toys.count  counts boxes | bags\n");
}

TEST(Description, NamesTheNearestOperation) {
  EXPECT_THAT([] { (void)describe(toys(), "toys.cuont", Format::text); },
              ThrowsMessage<NotFound>("there is no operation 'toys.cuont'; plumbline adapter --describe lists all; "
                                      "did you mean toys.count?"));
  EXPECT_THAT([] { (void)example_of(toys(), "frobnicate"); },
              ThrowsMessage<NotFound>("there is no operation 'frobnicate'; plumbline adapter --describe lists all"));
}

// A reply without what an operation measures: no two runs take the same time.
json without_times(const std::string& reply) {
  return json::parse(reply, [](int, json::parse_event_t event, const json& parsed) {
    return event != json::parse_event_t::key || (parsed != "periods" && parsed != "call_seconds");
  });
}

TEST(Examples, OfTheReferenceAreAnswered) {
  const AdapterService service = reference_service();
  for (const auto& [name, entry] : service.operations()) {
    const Example example = example_of(service, name);
    EXPECT_TRUE(json::parse(example.reply).contains("result")) << example.reply;
    EXPECT_GT(json::parse(example.request)["args"].size(), 0) << name << " has no example";
    EXPECT_EQ(without_times(example.reply), without_times(service.handle(example.request)));
  }
}

}  // namespace
}  // namespace plumbline::adapter
