#include "conformance/pass/random_programs.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace plumbline::conformance {

using program::DataType;
using program::Op;
using program::Program;
using program::RingId;
using program::Rings;
using program::Slots;
namespace role = program::role;

std::string words_of(const Program& program) {
  std::string text;
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    text += fmt::format("{}{}: {}({}) -> ({})", i == 0 ? "" : "; ", i, op.type,
                        fmt::join(program::names_in(op.inputs), ", "), fmt::join(program::names_in(op.outputs), ", "));
    if (!op.stream.empty()) text += " on " + op.stream;
    if (op.ring) text += fmt::format(" ring {}", *op.ring);
    if (op.on_calculation_stream == false) text += ", its stream";
  }
  return text;
}

namespace {

Op op_of(std::string type, Slots inputs, Slots outputs, int role = role::backward) {
  return {.type = std::move(type), .inputs = std::move(inputs), .outputs = std::move(outputs), .role = role};
}

Op reduction(const std::string& name, RingId ring, const std::string& scope) {
  Op op = op_of("all_reduce", {{"x", {name}}}, {{"out", {name}}});
  op.ring = ring;
  op.reduction = comm::ReduceOp::sum;
  op.name_scope = scope;
  return op;
}

constexpr const char* kDataParallel = "/auto_parallel/data_parallel";
constexpr const char* kTensorParallel = "/auto_parallel/tensor_parallel";

// ---- order ----

class OrderWriter {
 public:
  OrderWriter(const std::string& kind, Random& random) : kind_(kind), random_(random) {}

  Program write() {
    for (const char* name : {"u", "v", "w", "f", "e", "g", "h"})
      program_.variables[name] = {.shape = {4}, .dtype = DataType::f32, .persistable = true};
    if (has("fused")) program_.ops.push_back(coalesce());
    for (int left = random_.between(2, 13); left > 0; --left) program_.ops.push_back(draw());
    return program_;
  }

 private:
  [[nodiscard]] bool has(const std::string& what) const { return kind_ == what || kind_ == "all"; }
  std::string name() {
    static const std::vector<std::string> plain{"u", "v", "w"}, fused{"f", "g", "h", "f", "e", "u"};
    return random_.one_of(has("fused") ? fused : plain);
  }
  std::string stream() { return random_.one_of(std::vector<std::string>{"", "default", "a", "z"}); }
  RingId ring() { return random_.between(1, 2); }

  Op coalesce() {
    static const std::vector<std::vector<std::string>> members{{"g", "h"}, {"g", "u"}, {"h"}};
    const auto& list = random_.one_of(members);
    Op op = op_of("coalesce_tensor", {{"Input", list}},
                  {{"Output", list}, {"FusedOutput", {random_.between(0, 3) == 0 ? "e" : "f"}}});
    op.attributes = {{"copy_data", random_.between(0, 2) == 0}, {"dtype", std::string("float32")}};
    switch (random_.between(0, 9)) {
      case 0:
        op.inputs["Input"] = {name()};  // what it copies from need not be what it makes
        break;
      case 1:
        op.outputs.erase("Output");
        break;
      case 2:
        op.outputs.erase("FusedOutput");
        break;
      case 3:
        op.outputs["FusedOutput"] = {"e", "f"};
        break;
      case 4:
        op.attributes.erase("copy_data");
        break;
      default:
        break;
    }
    return op;
  }
  Op calculation() {
    Op op = op_of("relu", {{"X", {name()}}}, {{"Out", {name()}}});
    if (random_.between(0, 2) == 0)
      op = op_of("elementwise_add", {{"X", {name()}}, {"Y", {name()}}}, {{"Out", {name()}}});
    op.stream = stream();
    if (random_.between(0, 7) == 0) op.on_calculation_stream = false;  // of an op without a ring it says nothing
    return op;
  }
  Op communication() {
    if (has("messages") && random_.between(0, 1) == 0) {
      Op send = op_of("send_v2", {{"X", {name()}}}, {});
      send.ring = ring();
      send.on_calculation_stream = random_.between(0, 3) == 0;
      return send;
    }
    Op op = reduction(name(), ring(), kDataParallel);
    if (random_.between(0, 3) != 0) op.on_calculation_stream = random_.between(0, 2) == 0;
    op.stream = random_.between(0, 2) == 0 ? "a" : "";
    return op;
  }
  Op wait() {
    Op op = op_of(random_.between(0, 1) == 0 ? "c_wait_compute" : "c_wait_comm", {}, {});
    if (random_.between(0, 5) == 0) op.inputs["X"] = op.outputs["Out"] = {name()};
    if (random_.between(0, 9) != 0) op.ring = ring();
    if (random_.between(0, 5) == 0) op.on_calculation_stream = false;
    op.stream = random_.between(0, 3) == 0 ? "a" : "";
    return op;
  }
  Op dependency() {
    Op op = op_of("nop", {{"X", {name()}}}, {{"Out", {name()}}});
    if (random_.between(0, 1) == 0) op.outputs["Out"].push_back(name());
    op.stream = stream();
    return op;
  }

  Op draw() {
    const bool communicates = has("waits") || has("messages"), fuses = has("fused");
    switch (random_.between(0, 5)) {
      case 0:
        return communicates ? wait() : calculation();
      case 1:
        return communicates ? communication() : calculation();
      case 2:
        return communicates ? communication() : fuses ? dependency() : calculation();
      case 3:
        return fuses ? (random_.between(0, 4) == 0 ? coalesce() : dependency()) : calculation();
      default:
        return calculation();
    }
  }

  std::string kind_;
  Random& random_;
  Program program_;
};

}  // namespace

const std::vector<std::string>& kinds_of_order() {
  static const std::vector<std::string> kinds{"names", "waits", "fused", "messages", "all"};
  return kinds;
}

Program draw_order(const std::string& kind, Random& random) { return OrderWriter(kind, random).write(); }

std::vector<Program> smaller_orders(const Program& program) {
  std::vector<Program> smaller;
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    Program one = program;
    one.ops.erase(one.ops.begin() + static_cast<std::ptrdiff_t>(i));
    smaller.push_back(std::move(one));
  }
  return smaller;
}

// ---- steps ----

namespace {

std::string gradient_of(const std::string& name) { return name + "@GRAD"; }
std::string at(const char* prefix, int layer) { return prefix + std::to_string(layer); }

class StepWriter {
 public:
  explicit StepWriter(const DrawnStep& step) : step_(step) {}

  Program write() {
    const int layers = static_cast<int>(step_.layers.size());
    declare("lr", {}, true);
    declare("x0", {2, 4});
    for (int i = 0; i < layers; ++i) forward(i);
    loss(at("x", layers));
    if (step_.has_foreign_memory) foreign_memory();
    for (int i = layers - 1; i >= 0; --i) {
      backward(i);
      reduce_late_ones();
      if (i == layers / 2) in_the_middle(i);
    }
    for (late_step_ = 1 << 20; !late_.empty();) reduce_late_ones();
    for (int i = 0; i < layers; ++i) {
      update(at("w", i), layer(i).out_of_place && layer(i).is_reduced);
      if (layer(i).has_bias) update(at("b", i), false);
    }
    return std::move(program_);
  }

 private:
  [[nodiscard]] const DrawnLayer& layer(int i) const { return step_.layers[static_cast<std::size_t>(i)]; }
  void declare(const std::string& name, std::vector<std::int64_t> shape, bool persistable = false,
               const std::string& dtype = "float32") {
    program_.variables[name] = {.shape = std::move(shape),
                                .dtype = *program::parse_data_type(dtype),
                                .persistable = persistable,
                                .parameter = persistable && name != "lr" && name.find('_') == std::string::npos};
  }
  void add(Op op) { program_.ops.push_back(std::move(op)); }

  void forward(int i) {
    declare(at("w", i), {4, 4}, true);
    declare(gradient_of(at("w", i)), {4, 4});
    declare(at("y", i), {2, 4});
    declare(gradient_of(at("y", i)), {2, 4});
    add(op_of("matmul_v2", {{"X", {at("x", i)}}, {"Y", {at("w", i)}}}, {{"Out", {at("y", i)}}}, role::forward));
    std::string made = at("y", i);
    if (layer(i).has_bias) {
      declare(at("b", i), {4}, true, layer(i).dtype);
      declare(gradient_of(at("b", i)), {4}, false, layer(i).dtype);
      declare(at("z", i), {2, 4});
      declare(gradient_of(at("z", i)), {2, 4});
      add(op_of("elementwise_add", {{"X", {made}}, {"Y", {at("b", i)}}}, {{"Out", {at("z", i)}}}, role::forward));
      made = at("z", i);
    }
    declare(at("x", i + 1), {2, 4});
    declare(gradient_of(at("x", i + 1)), {2, 4});
    add(op_of("tanh", {{"X", {made}}}, {{"Out", {at("x", i + 1)}}}, role::forward));
  }

  void loss(const std::string& last) {
    declare("loss", {});
    add(op_of("reduce_mean", {{"X", {last}}}, {{"Out", {"loss"}}}, role::loss));
    declare(gradient_of("loss"), {});
    if (step_.loss_gradients == 0) {
      declare("given", {});
      add(op_of("assign", {{"X", {"given"}}}, {{"Out", {gradient_of("loss")}}}));
    }
    for (int i = 0; i < step_.loss_gradients; ++i) {
      Op start =
          op_of("fill_constant", {}, {{"Out", {i == 0 ? gradient_of("loss") : "more"}}}, role::backward | role::loss);
      start.attributes = {{"value", 1.0}, {"dtype", std::string("float32")}};
      if (i == 1) declare("more", {});
      add(start);
    }
    std::string from = gradient_of("loss");
    if (step_.loss_gradients == 2) {
      declare("both", {});
      add(op_of("sum", {{"X", {from, "more"}}}, {{"Out", {"both"}}}));
      from = "both";
    }
    add(op_of("reduce_mean_grad", {{"X", {last}}, {"Out@GRAD", {from}}}, {{"X@GRAD", {gradient_of(last)}}}));
  }

  void backward(int i) {
    std::string made = layer(i).has_bias ? at("z", i) : at("y", i);
    add(op_of("tanh_grad", {{"Out", {at("x", i + 1)}}, {"Out@GRAD", {gradient_of(at("x", i + 1))}}},
              {{"X@GRAD", {gradient_of(made)}}}));
    if (layer(i).has_bias) {
      add(op_of("elementwise_add_grad", {{"X", {at("y", i)}}, {"Y", {at("b", i)}}, {"Out@GRAD", {gradient_of(made)}}},
                {{"X@GRAD", {gradient_of(at("y", i))}}, {"Y@GRAD", {gradient_of(at("b", i))}}}));
      reduce(gradient_of(at("b", i)), {});
    }
    weight_gradient(i);
  }

  void weight_gradient(int i) {
    const DrawnLayer& one = layer(i);
    const std::string gradient = gradient_of(at("w", i));
    Op made =
        op_of("matmul_v2_grad", {{"X", {at("x", i)}}, {"Y", {at("w", i)}}, {"Out@GRAD", {gradient_of(at("y", i))}}},
              {{"Y@GRAD", {gradient}}});
    if (i > 0) made.outputs["X@GRAD"] = {gradient_of(at("x", i))};
    if (one.on_own_stream) made.stream = "weights";
    add(made);
    if (one.accumulates) {
      declare(gradient + "@MORE", {4, 4});
      add(op_of("scale", {{"X", {gradient}}}, {{"Out", {gradient + "@MORE"}}}));
      add(op_of("sum", {{"X", {gradient, gradient + "@MORE"}}}, {{"Out", {gradient}}}));
    }
    if (one.is_read_before) read(gradient, one, "before");
    if (one.tensor_parallel) add(reduction(gradient, 13, kTensorParallel));
    if (one.is_sent_before) send(gradient, one.on_own_stream || one.is_read_elsewhere);
    late_.push_back({late_step_ + one.late, i});
    ++late_step_;
  }

  // What an op sees of a gradient is kept, so that a run shows it.
  void read(const std::string& gradient, const DrawnLayer& one, const char* when) {
    const std::string kept = fmt::format("{}@{}", gradient, when);
    declare(kept, {4, 4}, true);
    program_.variables[kept].parameter = false;
    Op reader = op_of("assign", {{"X", {gradient}}}, {{"Out", {kept}}});
    if (one.is_read_elsewhere) reader.stream = "readers";
    add(reader);
  }

  void reduce_late_ones() {
    for (std::size_t k = 0; k < late_.size();) {
      if (late_[k].first >= late_step_) {
        ++k;
        continue;
      }
      const int i = late_[k].second;
      late_.erase(late_.begin() + static_cast<std::ptrdiff_t>(k));
      const DrawnLayer& one = layer(i);
      const std::string gradient = gradient_of(at("w", i));
      reduce(gradient, one);
      if (one.is_read_after) read(gradient, one, "after");
      if (one.is_sent_after) send(gradient, one.on_own_stream || one.is_read_elsewhere);
      if (one.out_of_place) write_over(gradient);
      if (step_.has_foreign_memory && i == 0) read_all();
    }
  }

  // Over the other ring, on that ring's own stream, between its waits. With ops of further streams names alone order
  // those.
  void send(const std::string& name, bool with_names = false) {
    for (const char* type : {"c_wait_compute", "", "c_wait_comm"}) {
      const bool is_wait = *type != '\0';
      Op op = is_wait ? op_of(type, {}, {}) : reduction(name, 13, kTensorParallel);
      if (is_wait && with_names) op.inputs["X"] = op.outputs["Out"] = {name};
      op.ring = 13;
      if (!is_wait) op.on_calculation_stream = false;
      add(op);
    }
  }

  void write_over(const std::string& gradient) {
    Op zeros = op_of("fill_constant", {}, {{"Out", {gradient}}});
    zeros.attributes = {{"value", 0.0}, {"dtype", std::string("float32")}};
    add(zeros);
  }

  void foreign_memory() {
    std::vector<std::string> members;
    for (std::size_t i = 0; i < step_.layers.size(); ++i) members.push_back(gradient_of(at("w", static_cast<int>(i))));
    declare("every", {});
    Op one = op_of("coalesce_tensor", {{"Input", members}}, {{"Output", members}, {"FusedOutput", {"every"}}});
    one.attributes = {{"copy_data", false}, {"use_align", true}, {"dtype", std::string("float32")}};
    add(one);
  }

  void read_all() {
    declare("seen", {}, true);
    program_.variables["seen"].parameter = false;
    add(op_of("reduce_sum", {{"X", {"every"}}}, {{"Out", {"seen"}}}));
  }

  void reduce(const std::string& gradient, const DrawnLayer& one) {
    if (!one.is_reduced) return;
    const Rings rings = step_.rings();
    for (int k = 0; k < one.rings; ++k) {
      const RingId ring = one.over_half ? 13 : 12 + k;
      Op sum = reduction(gradient, ring, kDataParallel);
      if (one.is_averaged) sum.reduction = comm::ReduceOp::avg;
      const std::string result = one.out_of_place ? gradient + "@SUM" : gradient;
      if (one.out_of_place) declare(result, program_.variables.at(gradient).shape);
      if (k == 0) sum.outputs["out"] = {result};
      if (k > 0) sum.inputs["x"] = sum.outputs["out"] = {result};
      add(sum);
      if (!one.is_scaled || one.is_averaged) continue;
      Op scale = op_of("scale", {{"X", {result}}}, {{"Out", {result}}});
      scale.name_scope = kDataParallel;
      const double size = static_cast<double>(rings.at(ring).size());
      scale.attributes["scale"] = one.factor != 0 ? one.factor : static_cast<double>(static_cast<float>(1 / size));
      add(scale);
    }
  }

  void in_the_middle(int i) {
    if (step_.has_forward_op) {
      declare("peek", {4, 4}, true);
      program_.variables["peek"].parameter = false;
      add(op_of("assign", {{"X", {gradient_of(at("w", i))}}}, {{"Out", {"peek"}}}, role::forward));
    }
    if (step_.has_second_derivative) {
      declare("second", {2, 4});
      add(op_of("relu_grad_grad", {{"Out", {at("x", i + 1)}}, {"DDX", {gradient_of(at("x", i + 1))}}},
                {{"DDOut", {"second"}}}));
    }
    if (step_.has_foreign_wait) foreign_reduction(i);
  }

  void foreign_reduction(int i) {
    const std::string name = "own";
    declare(name, {2, 4}, true);
    program_.variables[name].parameter = false;
    add(op_of("assign", {{"X", {gradient_of(at("x", i + 1))}}}, {{"Out", {name}}}));
    send(name);
    add(op_of("scale", {{"X", {name}}}, {{"Out", {name}}}));
  }

  void update(const std::string& parameter, bool out_of_place) {
    const std::string gradient = gradient_of(parameter) + (out_of_place ? "@SUM" : "");
    Op op = op_of(step_.optimizer, {{"Param", {parameter}}, {"Grad", {gradient}}, {"LearningRate", {"lr"}}},
                  {{"ParamOut", {parameter}}}, role::optimize);
    if (step_.optimizer == "momentum") {
      const program::Variable& like = program_.variables.at(parameter);
      declare(parameter + "_velocity", like.shape, true, std::string(name_of(like.dtype)));
      op.inputs["Velocity"] = op.outputs["VelocityOut"] = {parameter + "_velocity"};
      op.attributes["rescale_grad"] = 1.0;
    }
    add(op);
  }

  const DrawnStep& step_;
  Program program_;
  std::vector<std::pair<int, int>> late_;  // when, which layer
  int late_step_ = 0;
};

}  // namespace

Program DrawnStep::program() const { return StepWriter(*this).write(); }

Rings DrawnStep::rings() const {
  std::vector<int> all, half;
  for (int rank = 0; rank < ranks; ++rank) {
    all.push_back(rank);
    if (ranks % 2 != 0 || rank < ranks / 2) half.push_back(rank);
  }
  return {{0, all}, {12, all}, {13, half}};
}

const std::vector<std::string>& kinds_of_steps() {
  static const std::vector<std::string> kinds{
      "plain",        "late",           "accumulated",  "read",       "averaged",
      "unreduced",    "unscaled",       "other_factor", "two_rings",  "tensor_parallel",
      "streams",      "no_loss",        "two_losses",   "forward_op", "second_derivative",
      "foreign_wait", "foreign_memory", "out_of_place", "sent",       "any"};
  return kinds;
}

namespace {

void draw_streams(DrawnLayer& layer, Random& random) {
  layer.on_own_stream = random.between(0, 1) == 0;
  layer.is_read_elsewhere = !layer.on_own_stream || random.between(0, 1) == 0;
  if (!layer.is_read_elsewhere) return;
  layer.is_read_before = random.between(0, 1) == 0;
  layer.is_read_after = !layer.is_read_before || random.between(0, 1) == 0;
}

}  // namespace

DrawnStep draw_training_step(const std::string& kind, Random& random) {
  DrawnStep step{.layers = {},
                 .ranks = random.one_of(std::vector<int>{2, 4, 3}),
                 .optimizer = random.one_of(std::vector<std::string>{"sgd", "momentum"}),
                 .limit = random.one_of(std::vector<std::int64_t>{1 << 20, 40, 24})};
  const auto draws = [&](const char* what) { return kind == what || (kind == "any" && random.between(0, 5) == 0); };
  const int count = random.between(2, 5), chosen = random.between(0, count - 1);
  for (int i = 0; i < count; ++i) {
    DrawnLayer layer{.has_bias = random.between(0, 1) == 0};
    const bool is_chosen = i == chosen || random.between(0, 2) == 0;
    if (kind == "plain") layer.dtype = random.one_of(std::vector<std::string>{"float32", "bfloat16", "float64"});
    if (draws("late") && is_chosen) layer.late = random.between(1, 3);
    if (draws("accumulated")) layer.accumulates = is_chosen;
    if (draws("read")) layer.is_read_before = is_chosen, layer.is_read_after = random.between(0, 1) == 0;
    if (draws("averaged")) layer.is_averaged = is_chosen;
    if (draws("unreduced")) layer.is_reduced = !is_chosen;
    if (draws("unscaled")) layer.is_scaled = !is_chosen;
    if (draws("other_factor") && is_chosen) layer.factor = 0.125;
    if (draws("two_rings") && is_chosen) layer.rings = 2;
    if (draws("tensor_parallel")) layer.tensor_parallel = is_chosen;
    if (draws("out_of_place")) layer.out_of_place = is_chosen;
    if (draws("sent") && is_chosen) {
      layer.is_sent_before = random.between(0, 1) == 0;
      layer.is_sent_after = !layer.is_sent_before || random.between(0, 1) == 0;
    }
    // What is overlapped and not fused is ordered in another way than what is.
    if (draws("streams") || (kind == "second_derivative" && random.between(0, 1) == 0)) draw_streams(layer, random);
    step.layers.push_back(std::move(layer));
  }
  if (draws("no_loss")) step.loss_gradients = 0;
  if (draws("two_losses")) step.loss_gradients = 2;
  step.has_forward_op = draws("forward_op");
  step.has_second_derivative = draws("second_derivative");
  if (kind == "out_of_place" || kind == "sent" || kind == "foreign_memory")
    step.has_second_derivative = random.between(0, 1) == 0;
  step.has_foreign_wait = draws("foreign_wait");
  // Names do not order who names the whole with who makes a part on another stream.
  step.has_foreign_memory = draws("foreign_memory") && std::ranges::none_of(step.layers, &DrawnLayer::on_own_stream);
  return step;
}

std::vector<DrawnStep> smaller_training_steps(const DrawnStep& step) {
  std::vector<DrawnStep> smaller;
  for (std::size_t i = 0; i < step.layers.size() && step.layers.size() > 1; ++i) {
    DrawnStep one = step;
    one.layers.erase(one.layers.begin() + static_cast<std::ptrdiff_t>(i));
    smaller.push_back(std::move(one));
  }
  const auto with = [&](auto change) {
    DrawnStep one = step;
    if (change(one)) smaller.push_back(std::move(one));
  };
  with([](DrawnStep& one) { return std::exchange(one.ranks, 2) != 2; });
  with([](DrawnStep& one) { return std::exchange(one.loss_gradients, 1) != 1; });
  with([](DrawnStep& one) { return std::exchange(one.has_forward_op, false); });
  with([](DrawnStep& one) { return std::exchange(one.has_second_derivative, false); });
  with([](DrawnStep& one) { return std::exchange(one.has_foreign_wait, false); });
  with([](DrawnStep& one) { return std::exchange(one.has_foreign_memory, false); });
  for (std::size_t i = 0; i < step.layers.size(); ++i) {
    with([i](DrawnStep& one) { return std::exchange(one.layers[i].has_bias, false); });
    with([i](DrawnStep& one) { return std::exchange(one.layers[i].late, 0) != 0; });
    with([i](DrawnStep& one) { return std::exchange(one.layers[i].accumulates, false); });
    with([i](DrawnStep& one) { return std::exchange(one.layers[i].is_read_before, false); });
    with([i](DrawnStep& one) { return std::exchange(one.layers[i].is_read_after, false); });
    with([i](DrawnStep& one) { return std::exchange(one.layers[i].tensor_parallel, false); });
    with([i](DrawnStep& one) { return std::exchange(one.layers[i].out_of_place, false); });
    with([i](DrawnStep& one) { return std::exchange(one.layers[i].is_sent_before, false); });
    with([i](DrawnStep& one) { return std::exchange(one.layers[i].is_sent_after, false); });
    with([i](DrawnStep& one) { return std::exchange(one.layers[i].on_own_stream, false); });
    with([i](DrawnStep& one) { return std::exchange(one.layers[i].is_read_elsewhere, false); });
    with([i](DrawnStep& one) { return !std::exchange(one.layers[i].is_reduced, true); });
    with([i](DrawnStep& one) { return !std::exchange(one.layers[i].is_scaled, true); });
  }
  return smaller;
}

}  // namespace plumbline::conformance
