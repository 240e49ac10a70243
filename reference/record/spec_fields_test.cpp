// The table of fields says of each what the reader does.
#include "reference/record/spec_fields.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/record/run_spec.hpp"

namespace plumbline::job {
namespace {

using testing::HasSubstr;

// What each required field is given here; a layer's and an optimizer's kind comes first.
std::string value_of(const SpecField& field, const std::string& kind) {
  static const std::map<std::string_view, std::string> values{{"protocol", "1"},
                                                              {"steps", "2"},
                                                              {"global_batch", "4"},
                                                              {"lr", "0.5"},
                                                              {"kind", "\"dynamic\""},
                                                              {"step", "0"},
                                                              {"rank", "0"},
                                                              {"index", "0"},
                                                              {"value", "\"inf\""},
                                                              {"parameter", "\"0.weight\""},
                                                              {"in", "4"},
                                                              {"out", "4"},
                                                              {"kernel", "2"},
                                                              {"features", "4"},
                                                              {"rows", "4"},
                                                              {"with", "0"},
                                                              {"heads", "2"},
                                                              {"hidden", "4"},
                                                              {"experts", "4"},
                                                              {"max_norm", "1.0"},
                                                              {"period", "3"},
                                                              {"momentum", "0.5"},
                                                              {"graph", "\"ring\""},
                                                              {"decay", "\"cosine\""},
                                                              {"warmup_steps", "1"},
                                                              {"folder", "\"kept\""},
                                                              {"begin", "0"},
                                                              {"end", "2"}};
  if (field.name == "algorithm") return '"' + kind + '"';
  return field.name == "type" ? '"' + kind + '"' : values.at(field.name);
}

bool is_of(const SpecField& field, const std::string& kind) {
  return field.kinds.empty() || fmt::format(", {},", field.kinds).find(fmt::format(" {},", kind)) != std::string::npos;
}

// The required fields of a table, one of them left out.
std::string table_with(const std::string& table, const std::string& kind, std::string_view left_out = "") {
  std::string text;
  for (const SpecField& field : spec_fields())
    if (field.table == table && field.initial.empty() && is_of(field, kind) && field.name != left_out)
      text += fmt::format("{} = {}\n", field.name, value_of(field, kind));
  return text;
}

const std::vector<std::string> kLayers{"linear",       "relu",       "gelu",      "tanh",        "flatten",
                                       "batch_norm2d", "layer_norm", "embedding", "tied_linear", "conv2d",
                                       "attention",    "add",        "moe"};

// A specification of the required fields, with a layer of this kind after one that has a weight, or first where it
// takes integers, without one field.
std::string spec_text(const std::string& layer, const std::string& optimizer, std::string_view table = "-",
                      std::string_view left_out = "") {
  const auto part = [&](const char* name, const std::string& kind) {
    return table_with(name, kind, table == name ? left_out : "");
  };
  const std::string before = layer == "embedding" ? "" : "[[model.layer]]\n" + table_with("model.layer", "linear");
  return part("", "") + "[run]\n" + part("run", "") + before + "[[model.layer]]\n" + part("model.layer", layer) +
         "[loss]\n" + part("loss", "mse") + "[optimizer]\n" + part("optimizer", optimizer) + "[clip]\n" +
         part("clip", "") + "[scaler]\n" + part("scaler", "") + "[checkpoint]\n" + part("checkpoint", "") +
         "[[inject]]\n" + part("inject", "");
}

const std::vector<std::string> kAveragings(kAveragingAlgorithms.begin(), kAveragingAlgorithms.end());

// A specification that averages parameters, without one field.
std::string averaging_text(const std::string& algorithm, std::string_view left_out = "") {
  return table_with("", "") + "[run]\n" + table_with("run", "") + "[[model.layer]]\n" +
         table_with("model.layer", "linear") + "[loss]\n" + table_with("loss", "mse") + "[optimizer]\n" +
         table_with("optimizer", "sgd") + "[averaging]\n" + table_with("averaging", algorithm, left_out);
}

TEST(SpecFields, OfAveragingAreAllRequired) {
  for (const std::string& algorithm : kAveragings) {
    EXPECT_NO_THROW((void)parse_run_spec(averaging_text(algorithm), "/a/spec.toml")) << averaging_text(algorithm);
    for (const SpecField& field : spec_fields()) {
      if (field.table != "averaging" || !is_of(field, algorithm)) continue;
      EXPECT_THROW((void)parse_run_spec(averaging_text(algorithm, field.name), "/a/spec.toml"), InvalidArgument)
          << algorithm << " without " << field.name;
    }
  }
}

// A specification with a learning-rate schedule, without one field.
std::string scheduled_text(std::string_view left_out = "") {
  return table_with("", "") + "[run]\n" + table_with("run", "") + "[[model.layer]]\n" +
         table_with("model.layer", "linear") + "[loss]\n" + table_with("loss", "mse") + "[optimizer]\n" +
         table_with("optimizer", "sgd") + "[lr_schedule]\n" + table_with("lr_schedule", "", left_out);
}

TEST(SpecFields, OfALearningRateScheduleAreAllRequired) {
  EXPECT_NO_THROW((void)parse_run_spec(scheduled_text(), "/a/spec.toml")) << scheduled_text();
  for (const char* field : {"decay", "warmup_steps"})
    EXPECT_THROW((void)parse_run_spec(scheduled_text(field), "/a/spec.toml"), InvalidArgument) << field;
}

TEST(SpecFields, AreAllThatTheReaderRequires) {
  for (const std::string& layer : kLayers)
    EXPECT_NO_THROW((void)parse_run_spec(spec_text(layer, "sgd"), "/a/spec.toml")) << spec_text(layer, "sgd");
  EXPECT_NO_THROW((void)parse_run_spec(spec_text("relu", "adam"), "/a/spec.toml"));
}

TEST(SpecFields, AreMissedWhereTheyAreRequired) {
  int left_out = 0;
  for (const SpecField& field : spec_fields())
    for (const std::string& layer : kLayers) {
      if (field.table == "averaging" || field.table == "lr_schedule") continue;  // another specification
      if (!field.initial.empty() || (field.table == "model.layer" ? !is_of(field, layer) : layer != "linear")) continue;
      ++left_out;
      try {
        (void)parse_run_spec(spec_text(layer, "sgd", field.table, field.name), "/a/spec.toml");
        ADD_FAILURE() << field.table << '.' << field.name << " is required, says the table";
      } catch (const InvalidArgument& error) {
        EXPECT_THAT(error.what(), HasSubstr(fmt::format("{} is missing", field.name)));
      }
    }
  EXPECT_GT(left_out, 30);
}

// The fields of a file by table, each with its value.
std::map<std::string, std::map<std::string, std::string>> fields_of(const std::string& text) {
  std::map<std::string, std::map<std::string, std::string>> found;
  std::istringstream lines(text);
  std::string table;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('[')) {
      table = line.substr(line.find_last_of('[') + 1, line.find(']') - line.find_last_of('[') - 1);
    } else if (const auto equals = line.find(" = "); equals != std::string::npos) {
      found[table][line.substr(0, equals)] = line.substr(equals + 3);
    }
  }
  return found;
}

TEST(SpecFields, AreAllThatTheWriterWrites_WithTheirDefaults) {
  std::set<std::string> listed, written{"loss.row_weights", "optimizer.no_decay", "model.frozen",
                                        "run.activations",  "parallel.shard",     "parallel.expert"};
  for (const SpecField& field : spec_fields()) listed.insert(fmt::format("{}.{}", field.table, field.name));
  for (const std::string& layer : kLayers)
    for (const std::string optimizer : {"sgd", "adam"}) {
      const auto found = fields_of(to_toml(parse_run_spec(spec_text(layer, optimizer), "/a/spec.toml")));
      for (const auto& [table, fields] : found)
        for (const auto& [name, value] : fields) written.insert(fmt::format("{}.{}", table, name));
      for (const SpecField& field : spec_fields()) {
        const std::string kind = field.table == "model.layer" ? layer : optimizer;
        if (field.initial.empty() || !is_of(field, kind)) continue;
        if (field.table == "model.layer" && field.name == "bias" && layer == "relu") continue;
        // Written where it is not the default.
        constexpr std::array kWrittenRarely{"row_weights", "no_decay", "frozen", "activations", "shard", "expert"};
        if (std::ranges::find(kWrittenRarely, field.name) != kWrittenRarely.end()) continue;
        EXPECT_EQ(found.at(std::string(field.table)).at(std::string(field.name)), field.initial)
            << field.table << '.' << field.name;
      }
    }
  const auto add = [&](const std::string& text, const std::string& table) {
    const auto found = fields_of(to_toml(parse_run_spec(text, "/a/spec.toml")));
    for (const auto& [name, value] : found.at(table)) written.insert(fmt::format("{}.{}", table, name));
  };
  for (const std::string& algorithm : kAveragings) add(averaging_text(algorithm), "averaging");
  add(scheduled_text(), "lr_schedule");
  EXPECT_EQ(written, listed);
}

TEST(SpecFields, AreListedInTheReadme) {
  std::ifstream file(JOB_README);
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_THAT(text.str(), HasSubstr("<!-- fields -->\n" + spec_fields_as_markdown() + "<!-- end of fields -->\n"));
}

}  // namespace
}  // namespace plumbline::job
