#include "harness/mutants/rewriting.hpp"

namespace plumbline::mutants {

using nlohmann::json;

RewriteAnswer results_of(const std::string& asked, ChangeResult change) {
  return [asked, change = std::move(change)](const std::string& op, const json& args, json reply) {
    if (op == asked && reply.contains("result")) change(args, reply["result"]);
    return reply;
  };
}

RewriteAnswer results_of(const std::string& asked, const std::string& convention, ChangeResult change) {
  return [asked, convention, change = std::move(change)](const std::string& op, const json& args, json reply) {
    if (op == asked && args.value("convention", "plumbline") == convention && reply.contains("result"))
      change(args, reply["result"]);
    return reply;
  };
}

RewriteAnswer takes(const std::string& asked, std::function<bool(const json& args)> concerns, json result) {
  return [asked, concerns = std::move(concerns), result = std::move(result)](const std::string& op, const json& args,
                                                                             json reply) {
    return op == asked && reply.contains("error") && concerns(args) ? json{{"result", result}} : reply;
  };
}

}  // namespace plumbline::mutants
