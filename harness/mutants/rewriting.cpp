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

Size number_in(const std::string& argument) {
  return [argument](const json& args) { return args.value(argument, std::size_t{0}); };
}

Size length_of(const std::string& argument) {
  return [argument](const json& args) { return args.contains(argument) ? args[argument].size() : 0; };
}

RewriteAnswer results_past(const std::string& asked, Size size, std::size_t most, ChangeResult change) {
  return results_of(asked, [size = std::move(size), most, change = std::move(change)](const json& args, json& result) {
    if (size(args) > most) change(args, result);
  });
}

Mutant past_size(SizeMutant mutant) {
  const auto at = [&](const std::string& size) { return mutant.check + "[size=" + size + "]"; };
  return {.name = mutant.name,
          .violates = mutant.violates,
          .what = mutant.what,
          .source = "tests of small sizes alone let it pass",
          .shows = at(mutant.shows),
          .hides = at(mutant.hides),
          .why_hides = "the question is a smaller one",
          .change = std::move(mutant.change)};
}

void one_more(json& number) {
  if (number.is_number()) number = number.get<double>() + 1;
}

}  // namespace plumbline::mutants
