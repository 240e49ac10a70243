#include "conformance/pass/question.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

using nlohmann::json;

std::int64_t DrawnGradient::elements() const {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

bool PassQuestion::has_one_degree() const {
  std::set<int> sizes;
  for (std::size_t i = 0; i < gradients.size(); ++i) sizes.insert(size_of_ring(i));
  return sizes.size() == 1;
}

int PassQuestion::used_rings() const {
  std::set<int> rings;
  for (const DrawnGradient& gradient : gradients) rings.insert(gradient.ring);
  return static_cast<int>(rings.size());
}

bool PassQuestion::is_prunable() const { return gradient_scale && (has_one_degree() || optimizer == "momentum"); }

// ---- the program ----

namespace {

const char* const kScope = "/auto_parallel/data_parallel";

class ProgramWriter {
 public:
  explicit ProgramWriter(const PassQuestion& question) : question_(question) {}

  json program() {
    declare("lr", json::array(), "float32", true);
    declare("x0", {4}, "float32", false);
    const std::size_t count = question_.gradients.size();
    for (std::size_t i = 0; i < count; ++i) forward(i, count - 1 - i);
    const std::string last = "x" + std::to_string(count);
    op("reduce_mean", {{"X", {last}}}, {{"Out", {"loss"}}}, 256);
    op("fill_constant", json::object(), {{"Out", {"loss@GRAD"}}}, 257,
       {{"value", question_.loss_value}, {"dtype", "float32"}});
    op("reduce_mean_grad", {{"X", {last}}, {"Out@GRAD", {"loss@GRAD"}}}, {{"X@GRAD", {last + "@GRAD"}}}, 1);
    if (!question_.second_derivative.empty() && !question_.is_in_other_block)
      op(question_.second_derivative, {{"X", {last}}}, {{"Out", {"second"}}}, 1);
    for (std::size_t i = 0; i < count; ++i) backward(i, count - 1 - i);
    for (std::size_t i = 0; i < count; ++i) update(i);
    json program{{"vars", std::move(variables_)}, {"ops", std::move(ops_)}};
    if (question_.is_in_other_block)
      program["other_blocks"] =
          json::array({json::array({"while"}), json::array({"while", question_.second_derivative})});
    return program;
  }

 private:
  void declare(const std::string& name, const json& shape, const std::string& dtype, bool persists) {
    if (declared_.insert(name).second)
      variables_.push_back({{"name", name},
                            {"shape", shape},
                            {"dtype", dtype},
                            {"persistable", persists},
                            {"parameter", persists && name != "lr"}});
  }

  // What it writes and nobody has declared is a value of 4 elements.
  void op(const std::string& type, json inputs, json outputs, int role, json attributes = json::object()) {
    for (const json& names : outputs)
      for (const json& name : names) declare(name, {4}, "float32", false);
    attributes["op_role"] = role;
    ops_.push_back(
        {{"type", type}, {"inputs", std::move(inputs)}, {"outputs", std::move(outputs)}, {"attrs", attributes}});
  }

  // Gradient i is that of the weight of a layer from the end.
  void forward(std::size_t layer, std::size_t gradient) {
    const DrawnGradient& of = question_.gradients[gradient];
    const std::string weight = "w" + std::to_string(gradient);
    declare(weight, of.shape, of.dtype, true);
    declare(weight + "@GRAD", of.shape, of.dtype, false);
    op("matmul_v2", {{"X", {"x" + std::to_string(layer)}}, {"Y", {weight}}},
       {{"Out", {"x" + std::to_string(layer + 1)}}}, 0);
  }

  void backward(std::size_t gradient, std::size_t layer) {
    const DrawnGradient& of = question_.gradients[gradient];
    const std::string name = PassQuestion::name_of(gradient), input = "x" + std::to_string(layer);
    op("matmul_v2_grad",
       {{"Out@GRAD", {"x" + std::to_string(layer + 1) + "@GRAD"}},
        {"X", {input}},
        {"Y", {"w" + std::to_string(gradient)}}},
       {{"X@GRAD", {input + "@GRAD"}}, {"Y@GRAD", {name}}}, 1);
    op("all_reduce", {{"x", {name}}}, {{"out", {name}}}, 1,
       {{"op_namescope", kScope}, {"ring_id", 10 + of.ring}, {"reduce_type", "sum"}});
    if (question_.has_scales)
      op("scale", {{"X", {name}}}, {{"Out", {name}}}, 1,
         {{"op_namescope", kScope},
          {"scale", static_cast<double>(1.0F / static_cast<float>(question_.size_of_ring(gradient)))}});
    for (std::size_t i = 0; i <= gradient; ++i)
      if (question_.gradients[i].touched_after == static_cast<int>(gradient)) touch(i);
    if (question_.forward_after == static_cast<int>(gradient)) op("assign", {{"X", {"x0"}}}, {{"Out", {"again"}}}, 0);
  }

  void touch(std::size_t gradient) {
    const std::string name = PassQuestion::name_of(gradient), other = "read" + std::to_string(gradient);
    if (question_.gradients[gradient].is_written)
      op("sum", {{"X", {name, name}}}, {{"Out", {name}}}, 1);
    else
      op("assign", {{"X", {name}}}, {{"Out", {other}}}, 1);
  }

  void update(std::size_t gradient) {
    const std::string weight = "w" + std::to_string(gradient);
    json inputs{{"Param", {weight}}, {"Grad", {weight + "@GRAD"}}, {"LearningRate", {"lr"}}};
    json outputs{{"ParamOut", {weight}}};
    if (question_.optimizer != "momentum") return op(question_.optimizer, inputs, outputs, 2);
    declare(weight + "_velocity", question_.gradients[gradient].shape, question_.gradients[gradient].dtype, true);
    inputs["Velocity"] = outputs["VelocityOut"] = {weight + "_velocity"};
    op("momentum", inputs, outputs, 2, {{"rescale_grad", 1.0}});
  }

  const PassQuestion& question_;
  json variables_ = json::array(), ops_ = json::array();
  std::set<std::string> declared_;
};

}  // namespace

json PassQuestion::args(const std::string& convention) const {
  json rings = json::object();
  const auto ranks_of = [](int size) {
    json ranks = json::array();
    for (int rank = 0; rank < size; ++rank) ranks.push_back(rank);
    return ranks;
  };
  rings["0"] = ranks_of(std::ranges::max(ring_sizes) + 1);  // a rank that no ring has
  for (std::size_t i = 0; i < ring_sizes.size(); ++i) rings[std::to_string(10 + i)] = ranks_of(ring_sizes[i]);
  json args{{"program", ProgramWriter(*this).program()},
            {"rings", std::move(rings)},
            {"options", {{"gradient_scale", gradient_scale}, {"use_sharding", use_sharding}, {"global_rank", 0}}},
            {"max_fuse_numel", limit}};
  if (has_ring_limit) args["max_overlap_rings"] = ring_limit;
  if (convention != "plumbline") args["convention"] = convention;
  return args;
}

std::string PassQuestion::words() const {
  std::string words =
      fmt::format("{}, loss {}, limit {}, rings of {} (at most {}{}){}{}{}{}", optimizer, loss_value, limit,
                  fmt::join(ring_sizes, ","), ring_limit, has_ring_limit ? "" : ", not given",
                  has_scales ? "" : ", no scale ops", gradient_scale ? "" : ", not pruned",
                  use_sharding ? ", sharding" : "", second_derivative.empty() ? "" : ", " + second_derivative);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const DrawnGradient& one = gradients[i];
    words += fmt::format("; {} [{}] {} ring {}", name_of(i), fmt::join(one.shape, ","), one.dtype, one.ring);
    if (one.touched_after != -1)
      words += fmt::format(" {} after {}", one.is_written ? "written" : "read",
                           name_of(static_cast<std::size_t>(one.touched_after)));
    if (forward_after == static_cast<int>(i)) words += ", an op of the forward";
  }
  return words;
}

// ---- drawing ----

namespace {

std::vector<DrawnGradient> gradients_drawn(Random& random, int least, int most) {
  std::vector<DrawnGradient> list;
  for (int left = random.between(least, most); left > 0; --left) {
    DrawnGradient one;
    one.shape = random.one_of(std::vector<std::vector<std::int64_t>>{{4}, {3, 5}, {}, {2, 0}, {1}, {7}});
    list.push_back(one);
  }
  return list;
}

void draw_touches(PassQuestion& question, Random& random) {
  const int count = static_cast<int>(question.gradients.size());
  for (int i = 0; i < count; ++i) {
    if (random.between(0, 2) != 0) continue;
    question.gradients[static_cast<std::size_t>(i)].touched_after = random.between(i, count - 1);
    // A written sum is the same however often it is divided.
    question.gradients[static_cast<std::size_t>(i)].is_written = random.between(0, 1) == 1;
  }
}

void draw_rings(PassQuestion& question, Random& random, const std::vector<int>& sizes) {
  question.ring_sizes = sizes;
  for (DrawnGradient& gradient : question.gradients)
    gradient.ring = random.between(0, static_cast<int>(sizes.size()) - 1);
}

void draw_around_limit(PassQuestion& question, Random& random) {
  question.limit = random.between(2, 30);
  for (DrawnGradient& gradient : question.gradients)
    gradient.shape = {random.one_of(
        std::vector<std::int64_t>{1, question.limit - 1, question.limit, question.limit + 1, question.limit / 2, 0})};
}

void draw_large(PassQuestion& question, Random& random) {
  question.limit = std::int64_t{1} << random.between(31, 62);
  for (DrawnGradient& gradient : question.gradients)
    gradient.shape = {std::int64_t{1} << random.between(28, 31), random.between(1, 3)};
}

// Each used.
void draw_many_rings(PassQuestion& question, Random& random, int rings) {
  question.ring_sizes.assign(static_cast<std::size_t>(rings), 2);
  question.gradients.clear();
  for (int i = 0; i < rings; ++i)
    for (int left = random.between(1, 2); left > 0; --left) question.gradients.push_back({.ring = i});
}

void draw_second_derivative(PassQuestion& question, Random& random) {
  question.second_derivative =
      random.one_of(std::vector<std::string>{"tanh_grad_grad", "my_triple_grad", "abs_grad_grad2"});
  question.is_in_other_block = random.between(0, 1) == 1;
}

}  // namespace

PassQuestion draw_step(const std::string& kind, Random& random) {
  PassQuestion question{.gradients = gradients_drawn(random, 1, 9), .ring_sizes = {random.between(2, 4)}};
  question.optimizer = random.one_of(std::vector<std::string>{"sgd", "momentum", "adam"});
  question.loss_value = random.one_of(std::vector<double>{1, 3, 1024});
  if (kind == "plain") return question;
  if (kind == "types") {
    for (DrawnGradient& gradient : question.gradients)
      gradient.dtype = random.one_of(std::vector<std::string>{"float32", "float16", "bfloat16"});
  } else if (kind == "rings") {
    draw_rings(question, random, {3, 3, 3});
  } else if (kind == "degrees") {
    draw_rings(question, random, {2, 3, 4});
  } else if (kind == "around_limit") {
    draw_around_limit(question, random);
  } else if (kind == "large") {
    draw_large(question, random);
  } else if (kind == "touched") {
    draw_touches(question, random);
  } else if (kind == "many_rings") {
    question.ring_limit = random.between(2, 6);
    draw_many_rings(question, random, question.ring_limit + random.between(-1, 1));
  } else if (kind == "default_rings") {
    question.has_ring_limit = false;
    draw_many_rings(question, random, question.ring_limit + random.between(0, 1));
  } else if (kind == "higher") {
    draw_second_derivative(question, random);
  } else if (kind == "sharding") {
    question.use_sharding = true;
  } else if (kind == "unscaled") {
    question.gradient_scale = false;
    question.has_scales = random.between(0, 1) == 1;
  } else if (kind == "forward") {
    question.forward_after = random.between(0, static_cast<int>(question.gradients.size()) - 1);
  } else {
    throw NotFound("no steps '" + kind + "'");
  }
  return question;
}

namespace {

PassQuestion without(const PassQuestion& question, std::size_t gone) {
  PassQuestion less = question;
  less.gradients.erase(less.gradients.begin() + static_cast<std::ptrdiff_t>(gone));
  for (std::size_t i = 0; i < less.gradients.size(); ++i) {
    int& after = less.gradients[i].touched_after;
    if (after > static_cast<int>(gone) || after >= static_cast<int>(less.gradients.size())) --after;
    if (after < static_cast<int>(i)) after = -1;
  }
  if (less.forward_after >= static_cast<int>(less.gradients.size())) --less.forward_after;
  return less;
}

}  // namespace

std::vector<PassQuestion> smaller_steps(const PassQuestion& question) {
  std::vector<PassQuestion> list;
  for (std::size_t i = 0; question.gradients.size() > 1 && i < question.gradients.size(); ++i)
    list.push_back(without(question, i));
  for (std::size_t i = 0; i < question.gradients.size(); ++i)
    if (question.gradients[i].touched_after != -1)
      list.push_back(question), list.back().gradients[i].touched_after = -1;
  return list;
}

}  // namespace plumbline::conformance
