#include "conformance/pass/oddities.hpp"

#include <algorithm>
#include <functional>
#include <map>

#include "conformance/pass/answers.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

using nlohmann::json;

namespace {

class Surgery {
 public:
  Surgery(json& args, int where) : args_(args), ops_(args["program"]["ops"]), where_(static_cast<std::size_t>(where)) {
    gradient_ = ops_[reduction()].at("outputs").at("out").at(0);
  }

  void second_loss() {
    declare("loss2@GRAD");
    const std::size_t start = first("fill_constant");
    json second = ops_[start];
    second["outputs"]["Out"] = {"loss2@GRAD"};
    second["attrs"]["value"] = 7.0;
    const json name = ops_[start + 1].at("outputs").at("X@GRAD").at(0);
    insert(start + 2, op("sum", {{"X", {name, "loss2@GRAD"}}}, {{"Out", {name}}}));
    insert(start + 1, second);
  }
  void no_loss() { ops_[first("fill_constant")]["attrs"]["op_role"] = 1; }
  void loss_of_another_op() {
    json& start = ops_[first("fill_constant")];
    start["type"] = "fill_any_like";
    start["inputs"] = {{"X", {"loss"}}};
    start["attrs"].erase("dtype");
  }
  void no_scale() {
    if (is_scale(ops_[reduction() + 1])) erase(reduction() + 1);
  }
  void no_scales() {
    for (std::size_t i = ops_.size(); i-- > 0;)
      if (is_scale(ops_[i])) erase(i);
  }
  void unreduced() {
    no_scale();
    erase(reduction());
  }
  // A second time, over that ring, and scaled by its size.
  void reduced_again(int ring) {
    const std::size_t at = reduction();
    json second = ops_[at];
    second["attrs"]["ring_id"] = ring;
    const bool is_scaled = is_scale(ops_[at + 1]);
    json scale = ops_[at + (is_scaled ? 1 : 0)];
    scale["attrs"]["scale"] = 1 / static_cast<double>(args_["rings"][std::to_string(ring)].size());
    if (is_scaled) insert(at + 2, scale);
    insert(at + (is_scaled ? 2 : 1), second);
  }
  void two_rings() {
    json four = json::array({0, 1, 2, 3});
    args_["rings"]["99"] = four;
    if (args_["rings"]["0"].size() < 4) args_["rings"]["0"] = four;
    reduced_again(99);
  }
  void reduced_twice() { reduced_again(ops_[reduction()].at("attrs").at("ring_id")); }
  void average() {
    no_scale();
    ops_[reduction()]["attrs"]["reduce_type"] = "avg";
  }
  // Without scale ops sums and averages stand side by side.
  void averages() {
    no_scales();
    average();
  }
  void to_one_rank() { ops_[reduction()]["type"] = "reduce"; }
  // By an op at the start of the backward, long before its reduction.
  void made_early() {
    ops_[producer()]["outputs"].erase("Y@GRAD");
    const std::size_t start = first("fill_constant") + 1;
    const json last = ops_[start].at("outputs").at("X@GRAD").at(0), value = ops_[start].at("inputs").at("X").at(0);
    insert(start + 1, op("relu_grad", {{"Out", {value}}, {"Out@GRAD", {last}}}, {{"X@GRAD", {gradient_}}}));
  }
  void read_ahead() {
    declare("early");
    insert(reduction(), op("assign", {{"X", {gradient_}}}, {{"Out", {"early"}}}));
  }
  void no_optimizer() { erase(optimizer()); }
  void cast() {
    declare(gradient_ + "@CAST");
    const std::size_t at = optimizer();
    ops_[at]["inputs"]["Grad"] = {gradient_ + "@CAST"};
    insert(at, op("cast", {{"X", {gradient_}}}, {{"Out", {gradient_ + "@CAST"}}}));
  }
  // Another step of the same parameter, by an optimizer without a factor.
  void second_optimizer() {
    json second = ops_[optimizer()];
    second["type"] = "sgd";
    second["attrs"].erase("rescale_grad");
    second["inputs"].erase("Velocity");
    second["outputs"].erase("VelocityOut");
    insert(optimizer(), second);
  }
  // The optimizer uses the gradient as it is.
  void scaled_late() {
    const std::size_t scale = reduction() + 1;
    if (!is_scale(ops_[scale])) return;
    const json late = ops_[scale];
    erase(scale);
    insert(optimizer() + 1, late);
  }
  // After its scale op, by an op that does not read it.
  void overwritten() {
    const std::size_t at = reduction();
    insert(at + (is_scale(ops_[at + 1]) ? 2 : 1), op("assign", {{"X", {"loss"}}}, {{"Out", {gradient_}}}));
  }
  // A derivative reads what the backward made not as the gradient of what its op wrote, but as what its op read.
  void multiplied() {
    const std::size_t at = producer();
    const json gradient = ops_[at].at("inputs").at("Out@GRAD");
    declare("factor");
    ops_[at]["inputs"]["X"] = {"factor"};
    insert(at, op("assign", {{"X", gradient}}, {{"Out", {"factor"}}}));
  }
  // Its memory is a part of another variable, which ops after the reduction and after the scale op look at.
  void part_of_another() {
    declare("whole");
    const std::size_t at = reduction();
    for (const std::size_t next : {at + (is_scale(ops_[at + 1]) ? 2 : 1), at + 1}) {
      const std::string kept = "kept" + std::to_string(next);
      declare(kept);
      variable(kept)["persistable"] = true;
      insert(next, op("square", {{"X", {"whole"}}}, {{"Out", {kept}}}));
    }
    json made = op("coalesce_tensor", {{"Input", {gradient_}}}, {{"Output", {gradient_}}, {"FusedOutput", {"whole"}}});
    made["attrs"].update({{"copy_data", false}, {"use_align", true}, {"dtype", "float32"}});
    insert(producer(), made);
  }
  // A second time over the same ring, beside others that could be fused with the one and the other.
  void reduced_twice_unscaled() {
    no_scales();
    reduced_twice();
  }
  void persistent() { variable(gradient_)["persistable"] = true; }
  void unknown_shape() { variable(gradient_)["shape"] = {-1, 3}; }

 private:
  static json op(const char* type, json inputs, json outputs) {
    return {
        {"type", type}, {"inputs", std::move(inputs)}, {"outputs", std::move(outputs)}, {"attrs", {{"op_role", 1}}}};
  }
  void insert(std::size_t at, json op) { ops_.insert(ops_.begin() + static_cast<std::ptrdiff_t>(at), std::move(op)); }
  void erase(std::size_t at) { ops_.erase(at); }
  void declare(const std::string& name) {
    args_["program"]["vars"].push_back({{"name", name}, {"shape", {4}}, {"dtype", "float32"}});
  }
  json& variable(const std::string& name) {
    return *std::ranges::find_if(args_["program"]["vars"], [&](const json& one) { return one.at("name") == name; });
  }
  [[nodiscard]] std::size_t find(const std::function<bool(const json&)>& is_wanted, std::size_t which = 0) const {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < ops_.size(); ++i)
      if (is_wanted(ops_[i])) found.push_back(i);
    return found.at(which % found.size());
  }
  [[nodiscard]] std::size_t first(const char* type) const {
    return find([&](const json& one) { return one.at("type") == type; });
  }
  [[nodiscard]] std::size_t reduction() const { return find(is_reduction, where_); }
  [[nodiscard]] std::size_t producer() const {
    return find([&](const json& one) {
      return one.at("outputs").contains("Y@GRAD") && one.at("outputs").at("Y@GRAD").at(0) == gradient_;
    });
  }
  [[nodiscard]] std::size_t optimizer() const {
    return find([&](const json& one) {
      return one.at("inputs").contains("Grad") && one.at("inputs").at("Grad").at(0) == gradient_;
    });
  }

  json& args_;
  json& ops_;
  std::size_t where_;
  std::string gradient_;
};

const std::map<std::string, void (Surgery::*)()>& surgeries() {
  static const std::map<std::string, void (Surgery::*)()> list{
      {"average", &Surgery::average},
      {"averages", &Surgery::averages},
      {"cast", &Surgery::cast},
      {"loss_of_another_op", &Surgery::loss_of_another_op},
      {"made_early", &Surgery::made_early},
      {"multiplied", &Surgery::multiplied},
      {"no_loss", &Surgery::no_loss},
      {"no_optimizer", &Surgery::no_optimizer},
      {"no_scale", &Surgery::no_scale},
      {"no_scales", &Surgery::no_scales},
      {"overwritten", &Surgery::overwritten},
      {"part_of_another", &Surgery::part_of_another},
      {"persistent", &Surgery::persistent},
      {"read_ahead", &Surgery::read_ahead},
      {"reduced_twice", &Surgery::reduced_twice},
      {"reduced_twice_unscaled", &Surgery::reduced_twice_unscaled},
      {"scaled_late", &Surgery::scaled_late},
      {"second_loss", &Surgery::second_loss},
      {"second_optimizer", &Surgery::second_optimizer},
      {"to_one_rank", &Surgery::to_one_rank},
      {"two_rings", &Surgery::two_rings},
      {"unknown_shape", &Surgery::unknown_shape},
      {"unreduced", &Surgery::unreduced}};
  return list;
}

}  // namespace

const std::vector<std::string>& oddities() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all{"none"};
    for (const auto& [name, surgery] : surgeries()) all.push_back(name);
    return all;
  }();
  return names;
}

void make_odd(json& args, const std::string& oddity, int where) {
  if (oddity == "none") return;
  const auto found = surgeries().find(oddity);
  if (found == surgeries().end()) throw NotFound("no oddity '" + oddity + "'");
  (Surgery(args, where).*found->second)();
}

}  // namespace plumbline::conformance
