// Programs for tests, written in a line an op.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "reference/program/pass.hpp"
#include "reference/program/program.hpp"

namespace plumbline::program::samples {

inline Op op(std::string type, Slots inputs, Slots outputs, int role = role::backward) {
  return {.type = std::move(type), .inputs = std::move(inputs), .outputs = std::move(outputs), .role = role};
}

inline Op reduction_of(const std::string& gradient, RingId ring) {
  Op reduction = op("all_reduce", {{"x", {gradient}}}, {{"out", {gradient}}});
  reduction.name_scope = "/auto_parallel/data_parallel";
  reduction.ring = ring;
  reduction.reduction = comm::ReduceOp::sum;
  return reduction;
}

inline Op scale_of(const std::string& gradient, double factor) {
  Op scale = op("scale", {{"X", {gradient}}}, {{"Out", {gradient}}});
  scale.name_scope = "/auto_parallel/data_parallel";
  scale.attributes["scale"] = factor;
  return scale;
}

inline Op optimizer_of(const std::string& parameter, const std::string& type = "sgd") {
  Op update = op(type, {{"Param", {parameter}}, {"Grad", {parameter + "@GRAD"}}, {"LearningRate", {"lr"}}},
                 {{"ParamOut", {parameter}}}, role::optimize);
  if (type == "momentum") {
    update.inputs["Velocity"] = update.outputs["VelocityOut"] = {parameter + "_velocity"};
    update.attributes["rescale_grad"] = 1.0;
  }
  return update;
}

// The names that ops use and nobody has declared, as gradients of 4 elements; parameters are those that persist.
inline void declare(Program& program) {
  for (const Op& one : program.ops)
    for (const Slots* slots : {&one.inputs, &one.outputs})
      for (const std::string& name : names_in(*slots))
        program.variables.try_emplace(name, Variable{.shape = {4}, .dtype = DataType::f32});
  for (auto& [name, variable] : program.variables)
    if (name == "lr" || name.starts_with("w")) variable.persistable = name.find('@') == std::string::npos;
}

// y = x w0 w1 …, its loss, and a reduction and scaling of each gradient after the op that makes it.
inline Program chain(int layers, RingId ring, double factor, const std::string& optimizer = "sgd") {
  Program program;
  const auto name = [](const char* prefix, int layer) { return prefix + std::to_string(layer); };
  for (int i = 0; i < layers; ++i)
    program.ops.push_back(
        op("matmul_v2", {{"X", {name("x", i)}}, {"Y", {name("w", i)}}}, {{"Out", {name("x", i + 1)}}}, role::forward));
  program.ops.push_back(op("reduce_mean", {{"X", {name("x", layers)}}}, {{"Out", {"loss"}}}, role::loss));
  Op start = op("fill_constant", {}, {{"Out", {"loss@GRAD"}}}, role::backward | role::loss);
  start.attributes = {{"value", 1.0}, {"dtype", std::string("float32")}};
  program.ops.push_back(start);
  program.ops.push_back(op("reduce_mean_grad", {{"X", {name("x", layers)}}, {"Out@GRAD", {"loss@GRAD"}}},
                           {{"X@GRAD", {name("x", layers) + "@GRAD"}}}));
  for (int i = layers - 1; i >= 0; --i) {
    program.ops.push_back(op("matmul_v2_grad",
                             {{"X", {name("x", i)}}, {"Y", {name("w", i)}}, {"Out@GRAD", {name("x", i + 1) + "@GRAD"}}},
                             {{"X@GRAD", {name("x", i) + "@GRAD"}}, {"Y@GRAD", {name("w", i) + "@GRAD"}}}));
    program.ops.push_back(reduction_of(name("w", i) + "@GRAD", ring));
    if (factor != 1) program.ops.push_back(scale_of(name("w", i) + "@GRAD", factor));
  }
  for (int i = 0; i < layers; ++i) program.ops.push_back(optimizer_of(name("w", i), optimizer));
  declare(program);
  return program;
}

}  // namespace plumbline::program::samples
