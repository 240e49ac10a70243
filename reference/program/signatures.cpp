// The known ops, with their slots.
#include <algorithm>
#include <initializer_list>
#include <span>

#include "reference/program/validate.hpp"

namespace plumbline::program {

namespace {

// Slots are separated by blanks.
struct Known {
  std::string_view type, inputs, outputs;
};

constexpr std::string_view kAdamInputs =
    "Param Grad LearningRate Moment1 Moment2 Moment2Max Beta1Pow Beta2Pow MasterParam SkipUpdate Beta1Tensor "
    "Beta2Tensor "
    "EpsilonTensor";
constexpr std::string_view kAdamOutputs =
    "ParamOut Moment1Out Moment2Out Moment2MaxOut Beta1PowOut Beta2PowOut MasterParamOut";
constexpr std::string_view kMomentumInputs = "Param Grad Velocity LearningRate MasterParam";
constexpr std::string_view kMomentumOutputs = "ParamOut VelocityOut MasterParamOut";

constexpr Known kForward[] = {
    {"abs", "X", "Out"},
    {"assign", "X", "Out"},
    {"batch_norm", "X Scale Bias Mean Variance MomentumTensor",
     "Y MeanOut VarianceOut SavedMean SavedVariance ReserveSpace"},
    {"cast", "X", "Out"},
    {"clip", "X Min Max", "Out"},
    {"clip_by_norm", "X", "Out"},
    {"concat", "X AxisTensor", "Out"},
    {"conv2d", "Input Filter Bias ResidualData", "Output"},
    {"dropout", "X Seed", "Out Mask"},
    {"elementwise_add", "X Y", "Out"},
    {"elementwise_div", "X Y", "Out"},
    {"elementwise_max", "X Y", "Out"},
    {"elementwise_min", "X Y", "Out"},
    {"elementwise_mul", "X Y", "Out"},
    {"elementwise_pow", "X Y", "Out"},
    {"elementwise_sub", "X Y", "Out"},
    {"exp", "X", "Out"},
    {"expand_v2", "X Shape expand_shapes_tensor", "Out"},
    {"fill_any_like", "X", "Out"},
    {"fill_constant", "ValueTensor ShapeTensor ShapeTensorList", "Out"},
    {"flatten_contiguous_range", "X", "Out XShape"},
    {"gather", "X Index Axis", "Out"},
    {"gelu", "X", "Out"},
    {"increment", "X", "Out"},
    {"layer_norm", "X Scale Bias", "Y Mean Variance"},
    {"log", "X", "Out"},
    {"lookup_table_v2", "Ids W", "Out"},
    {"matmul_v2", "X Y", "Out"},
    {"mean", "X", "Out"},
    {"mul", "X Y", "Out"},
    {"p_norm", "X", "Out"},
    {"pool2d", "X", "Out"},
    {"reduce_max", "X", "Out"},
    {"reduce_mean", "X", "Out"},
    {"reduce_sum", "X", "Out"},
    {"relu", "X", "Out"},
    {"reshape2", "X Shape ShapeTensor", "Out XShape"},
    {"rsqrt", "X", "Out"},
    {"scale", "X ScaleTensor BiasTensor", "Out"},
    {"sigmoid", "X", "Out"},
    {"silu", "X", "Out"},
    {"slice", "Input StartsTensor EndsTensor StartsTensorList EndsTensorList", "Out"},
    {"softmax", "X", "Out"},
    {"softmax_with_cross_entropy", "Logits Label", "Softmax Loss"},
    {"split", "X AxisTensor SectionsTensorList", "Out"},
    {"sqrt", "X", "Out"},
    {"square", "X", "Out"},
    {"squared_l2_norm", "X", "Out"},
    {"squeeze2", "X", "Out XShape"},
    {"stack", "X", "Y"},
    {"sum", "X", "Out"},
    {"tanh", "X", "Out"},
    {"transpose2", "X", "Out XShape"},
    {"unsqueeze2", "X AxesTensor AxesTensorList", "Out XShape"},
};

constexpr Known kOptimizers[] = {
    {"adagrad", "Param Grad Moment LearningRate MasterParam", "ParamOut MomentOut MasterParamOut"},
    {"adam", kAdamInputs, kAdamOutputs},
    {"adamw", kAdamInputs, kAdamOutputs},
    {"dgc_momentum", "Param Grad Velocity LearningRate MasterParam current_step nranks",
     "ParamOut VelocityOut MasterParamOut Grad_out"},
    {"lamb", kAdamInputs, kAdamOutputs},
    {"lars_momentum", kMomentumInputs, kMomentumOutputs},
    {"merged_momentum", kMomentumInputs, kMomentumOutputs},
    {"momentum", kMomentumInputs, kMomentumOutputs},
    {"rmsprop", "Param Grad LearningRate Moment MeanSquare MeanGrad MasterParam",
     "ParamOut MomentOut MeanSquareOut MeanGradOut MasterParamOut"},
    {"sgd", "Param Grad LearningRate MasterParam", "ParamOut MasterParamOut"},
    {"sparse_momentum", "Param Grad Velocity Index Axis LearningRate MasterParam", kMomentumOutputs},
    {"check_finite_and_unscale", "X Scale FloatStatus", "Out FoundInfinite"},
    {"update_loss_scaling", "X FoundInfinite PrevLossScaling InGoodSteps InBadSteps StopUpdate",
     "Out LossScaling OutGoodSteps OutBadSteps"},
};

// Older communication ops call their slots X and Out.
constexpr Known kCommunication[] = {
    {"all_gather", "x X", "out Out"},
    {"all_reduce", "x X", "out Out"},
    {"all_to_all", "x X", "out Out"},
    {"broadcast", "x X", "out Out"},
    {"c_allreduce_avg", "x X Cond", "out Out"},
    {"c_allreduce_max", "x X Cond", "out Out"},
    {"c_allreduce_min", "x X Cond", "out Out"},
    {"c_allreduce_prod", "x X Cond", "out Out"},
    {"c_allreduce_sum", "x X Cond", "out Out"},
    {"c_broadcast", "x X", "out Out"},
    {"c_identity", "x X", "out Out"},
    {"c_sync_calc_stream", "x X", "out Out"},
    {"c_sync_comm_stream", "x X", "out Out"},
    {"c_wait_comm", "x X", "out Out"},
    {"c_wait_compute", "x X", "out Out"},
    {"recv_v2", "", "out Out"},
    {"reduce", "x X", "out Out"},
    {"reduce_scatter", "x X", "out Out"},
    {"send_v2", "x X", ""},
};

constexpr Known kMemory[] = {
    {"coalesce_tensor", "Input", "Output FusedOutput"},
    {"nop", "X", "Out"},
    {"share_buffer", "X", "Out XOut"},
};

// Of derivatives of derivatives, whose slots follow no one rule.
constexpr Known kSecondDerivatives[] = {
    {"elementwise_add_grad_grad", "Y DOut DDX DDY", "DDOut"},
    {"elementwise_mul_grad_grad", "X Y DOut DDX DDY", "DDOut X@GRAD Y@GRAD"},
    {"elementwise_sub_grad_grad", "Y DOut DDX DDY", "DDOut"},
    {"matmul_v2_grad_grad", "X Y grad_out grad_x@GRAD grad_y@GRAD", "X@GRAD Y@GRAD grad_out@GRAD"},
    {"relu_grad_grad", "Out DDX", "DDOut"},
    {"square_grad_grad", "X DOut DDX", "DX DDOut"},
    {"tanh_grad_grad", "Out grad_out grad_x@GRAD", "Out@GRAD grad_out@GRAD"},
};

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

std::optional<OpSignature> listed(std::string_view type) {
  for (const std::span<const Known> table : std::initializer_list<std::span<const Known>>{
           kForward, kOptimizers, kCommunication, kMemory, kSecondDerivatives})
    for (const Known& known : table)
      if (known.type == type)
        return OpSignature{.inputs = split_words(known.inputs), .outputs = split_words(known.outputs)};
  return std::nullopt;
}

constexpr std::string_view kGradient = "_grad", kGradientSlot = "@GRAD";

// Reads what the op read and wrote and the gradients of what it wrote, and writes the gradients of what it read.
OpSignature derivative(const OpSignature& of) {
  OpSignature signature{.inputs = of.inputs, .outputs = {}};
  signature.inputs.insert(signature.inputs.end(), of.outputs.begin(), of.outputs.end());
  for (const std::string& slot : of.outputs) signature.inputs.push_back(slot + std::string(kGradientSlot));
  for (const std::string& slot : of.inputs) signature.outputs.push_back(slot + std::string(kGradientSlot));
  return signature;
}

bool is_forward(std::string_view type) {
  return std::ranges::any_of(kForward, [&](const Known& known) { return known.type == type; });
}

}  // namespace

std::optional<OpSignature> op_signature(std::string_view type) {
  if (auto signature = listed(type)) return signature;
  if (!type.ends_with(kGradient)) return std::nullopt;
  const std::string_view of = type.substr(0, type.size() - kGradient.size());
  return is_forward(of) ? std::optional(derivative(*listed(of))) : std::nullopt;
}

}  // namespace plumbline::program
