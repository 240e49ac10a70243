#include "reference/record/spec_fields.hpp"

#include <array>

#include <fmt/format.h>

namespace plumbline::job {
namespace {

constexpr std::string_view kLinearAndConv = "linear, conv2d";

constexpr std::array kFields{
    SpecField{"", "", "protocol", "integer", "", "version of this form: 1"},
    SpecField{"", "", "seed", "integer", "0", "of the run, for what the program draws itself"},

    SpecField{"parallel", "", "pipeline", "integer", "1", "pipeline ranks"},
    SpecField{"parallel", "", "data", "integer", "1", "data ranks; the product of the three sizes is the world size"},
    SpecField{"parallel", "", "tensor", "integer", "1", "tensor ranks"},
    SpecField{"parallel", "", "order", "list of text", R"(["pipeline", "data", "tensor"])",
              "axes of the rank order: row-major, the last one is the fastest"},
    SpecField{"parallel", "", "shard", "integer", "1",
              "data ranks that hold a copy of the parameters together: data rank d has coordinate d mod shard on the "
              "axis shard, and d / shard, rounded down, on the axis replicate; 1: each has a copy"},
    SpecField{
        "parallel", "", "expert", "integer", "1",
        "expert ranks, a divisor of data: data rank d has expert rank d modulo expert, and holds of each layer of "
        "experts the part of that number, of equal consecutive ones"},

    SpecField{"run", "", "steps", "integer", "", "optimizer steps"},
    SpecField{"run", "", "global_batch", "integer", "",
              "rows of a batch; data rank d of D takes the d-th of D equal consecutive slices"},
    SpecField{"run", "", "micro_batches", "integer", "1", "equal consecutive slices of a data rank's rows"},
    SpecField{"run", "", "accumulation", "integer", "1",
              "batches of a step: step S, from 0, uses batches S*accumulation .. (S+1)*accumulation-1"},
    SpecField{"run", "", "dtype", "text", R"("float32")", "of forward and backward: float32, float16, bfloat16"},
    SpecField{"run", "", "schedule", "text", R"("1f1b")",
              "of the pipeline: gpipe, 1f1b, interleaved-1f1b, looped-bfs, zb-h1, zb-h2, interleaved-zb, zbv, v-half, "
              "v-min, dualpipev"},
    SpecField{"run", "", "chunks", "integer", "1", "stages of each pipeline rank"},
    SpecField{"run", "", "bucket_bytes", "integer", "26214400", "a hint, which does not show in the record"},
    SpecField{"run", "", "device", "text", R"("cpu")", "what --device says"},
    SpecField{"run", "", "activations", "boolean", "false",
              "whether the case judges outputs of layers and their gradients, of the record; a program that records "
              "none skips it"},

    SpecField{"model", "", "stages", "list of integer", "[0]", "first layer of each of pipeline x chunks stages"},
    SpecField{"model", "", "frozen", "list of text", "[]",
              "parameters that do not train: they keep the given weights, and have no gradient and no optimizer state"},
    SpecField{"model.layer", "", "type", "text", "",
              "linear, relu, gelu, tanh, flatten, conv2d, batch_norm2d, layer_norm, embedding, tied_linear, attention, "
              "add, moe"},
    SpecField{"model.layer", kLinearAndConv, "in", "integer", "", "input features or channels"},
    SpecField{"model.layer", kLinearAndConv, "out", "integer", "", "output features or channels"},
    SpecField{"model.layer", kLinearAndConv, "bias", "boolean", "true", "whether it has a bias"},
    SpecField{"model.layer", "conv2d", "kernel", "integer", "", "kernel size in both directions"},
    SpecField{"model.layer", "conv2d", "stride", "integer", "1", "stride in both directions"},
    SpecField{"model.layer", "conv2d", "padding", "integer", "0", "padding with zeros on all sides"},
    SpecField{"model.layer", "batch_norm2d, layer_norm, embedding, moe", "features", "integer", "",
              "channels or features"},
    SpecField{"model.layer", "embedding", "rows", "integer", "", "rows of the table"},
    SpecField{
        "model.layer", "tied_linear, add", "with", "integer", "",
        "the earlier linear or embedding layer whose weight tied_linear multiplies by; the earlier layer whose output "
        "add adds to its input, one of its own stage or the one before that stage"},
    SpecField{"model.layer", "attention", "heads", "integer", "",
              "heads of causal self-attention over [tokens, features]; a head's query, key and value lie one after the "
              "other, head after head"},

    SpecField{"model.layer", "moe", "hidden", "integer", "",
              "hidden features of each expert: linear, gelu, linear, without biases"},
    SpecField{"model.layer", "moe", "experts", "integer", "",
              "experts, between which a linear layer without bias chooses"},
    SpecField{
        "model.layer", "moe", "top_k", "integer", "2",
        "experts that a token goes through: those with the largest probabilities by a softmax over all experts, of "
        "equal ones the first; all tokens do, however many choose an expert"},
    SpecField{
        "model.layer", "moe", "normalize_gates", "boolean", "true",
        "whether the output of an expert is multiplied by its probability over the sum of the chosen ones, else by "
        "its probability"},

    SpecField{"loss", "", "type", "text", "", "cross_entropy or mse, a mean"},
    SpecField{
        "loss", "", "row_weights", "boolean", "false",
        "whether rows have weights, w of the batches: the mean over the rows of a step is a weighted one, and rows "
        "of weight 0 are padding"},

    SpecField{"optimizer", "", "type", "text", "", "sgd or adam"},
    SpecField{"optimizer", "", "lr", "number", "", "learning rate"},
    SpecField{"optimizer", "sgd", "momentum", "number", "0.0", "momentum factor"},
    SpecField{"optimizer", "sgd", "nesterov", "boolean", "false", "Nesterov's momentum"},
    SpecField{"optimizer", "sgd", "weight_decay", "number", "0.0", "L2 penalty, added to the gradient"},
    SpecField{"optimizer", "sgd", "no_decay", "list of text", "[]",
              "parameters that weight decay leaves out, such as biases and the weights of normalizations"},
    SpecField{"optimizer", "adam", "betas", "list of number", "[0.9, 0.999]", "decay rates of the moments"},
    SpecField{"optimizer", "adam", "eps", "number", "1e-08", "added to the denominator"},

    SpecField{"clip", "", "max_norm", "number", "",
              "gradients are multiplied by max_norm / (norm + 1e-6) where that is below 1, after the reduction and "
              "unscaling; norm is that of the whole model's gradient; without this table they are not clipped"},
    SpecField{"clip", "", "norm_type", "number", "2.0", "of that norm: a number above 0, or inf"},

    SpecField{"averaging", "", "algorithm", "text", "",
              "localsgd, slowmo, diloco or sgp: how ranks average parameters in place of gradients; without this table "
              "they do not"},
    SpecField{"averaging", "localsgd, slowmo, diloco", "period", "integer", "",
              "steps of a round: ranks average after each period-th step"},
    SpecField{"averaging", "slowmo, diloco", "lr", "number", "", "learning rate of the outer step"},
    SpecField{"averaging", "slowmo, diloco", "momentum", "number", "", "momentum factor of the outer step"},
    SpecField{"averaging", "sgp", "graph", "text", "",
              "to whom a rank sends after each step: n-peer-exponential, ring, star, complete"},

    SpecField{
        "lr_schedule", "", "decay", "text", "",
        "linear or cosine: with it, step S of N, from 0, has learning rate lr x factor; from W = warmup_steps on the "
        "factor is (N-S)/(N-W), or (1 + cos(pi (S-W)/(N-W)))/2; without this table it is 1"},
    SpecField{"lr_schedule", "", "warmup_steps", "integer", "",
              "first steps, whose factor is S/W; fewer than run.steps"},

    SpecField{
        "scaler", "", "kind", "text", "",
        "dynamic or constant; without this table the loss is not scaled, and a constant scale has init_scale alone"},
    SpecField{"scaler", "", "init_scale", "number", "65536.0", "scale of the first step"},
    SpecField{"scaler", "", "growth_factor", "number", "2.0", "multiplies the scale after growth_interval steps"},
    SpecField{"scaler", "", "backoff_factor", "number", "0.5", "multiplies the scale after a skipped step"},
    SpecField{"scaler", "", "growth_interval", "integer", "2000", "steps in a row without a skipped one"},

    SpecField{"checkpoint", "", "folder", "text", "",
              "where a run in two parts, each in a layout of its own, keeps its checkpoint: a present folder, its "
              "path absolute or from that of the specification; without this table the program trains all steps"},
    SpecField{"checkpoint", "", "begin", "integer", "",
              "the first step that the program trains and records; above 0 it loads what the program has saved there "
              "before this step, in a run in another layout, in place of the weights"},
    SpecField{"checkpoint", "", "end", "integer", "",
              "the step before which the program ends; below run.steps it saves what a run needs to continue"},

    SpecField{"inject", "", "step", "integer", "", "step, from 0, in which a value is written into a gradient"},
    SpecField{"inject", "", "rank", "integer", "", "rank that writes it"},
    SpecField{"inject", "", "parameter", "text", "", "name of the parameter"},
    SpecField{"inject", "", "index", "integer", "", "row-major index in the rank's part of the parameter"},
    SpecField{"inject", "", "value", "number or text", "", R"(a number, "inf", "-inf" or "nan")"},
    SpecField{"inject", "", "moment", "text", R"("local")",
              "local: after the step's last backward, before any reduction; or reduced: after it"},

    SpecField{"files", "", "weights", "text", R"("weights.safetensors")",
              "initial parameters, F32: <layer>.weight and <layer>.bias, as torch.nn.Sequential names and shapes them; "
              "of moe "
              "<layer>.weight [experts, features], <layer>.up.<expert> [hidden, features], <layer>.down.<expert> "
              "[features, hidden]"},
    SpecField{"files", "", "batches", "text", R"("batches.safetensors")",
              "x [steps*accumulation, global_batch, row...] F32, or I64 before an embedding; y [steps*accumulation, "
              "global_batch] I64, [steps*accumulation, global_batch, tokens] where the model has classes for each "
              "token, or F32 in "
              "the output's shape with mse; with loss.row_weights w [steps*accumulation, "
              "global_batch] F32"},
};

std::string shown_table(std::string_view table) {
  if (table.empty()) return "";
  const bool is_list = table == "model.layer" || table == "inject";
  return is_list ? fmt::format("`[[{}]]`", table) : fmt::format("`[{}]`", table);
}

}  // namespace

std::span<const SpecField> spec_fields() { return kFields; }

std::string spec_fields_as_markdown() {
  std::string text = "| table | field | type | default | meaning |\n| --- | --- | --- | --- | --- |\n";
  for (const SpecField& field : kFields)
    text += fmt::format("| {} | `{}`{} | {} | {} | {} |\n", shown_table(field.table), field.name,
                        field.kinds.empty() ? "" : fmt::format(" of {}", field.kinds), field.type,
                        field.initial.empty() ? "required" : fmt::format("`{}`", field.initial), field.meaning);
  return text;
}

}  // namespace plumbline::job
