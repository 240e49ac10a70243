#include "harness/mutants/rewritten_adapter.hpp"

#include "harness/suite/adapter_error.hpp"

namespace plumbline::mutants {

using nlohmann::json;

json RewrittenAdapter::reply_to(const std::string& op, const json& args) {
  try {
    return {{"result", inner_.ask(op, args)}};
  } catch (const suite::AdapterError& error) {
    json reply(error.fields());
    reply.update({{"kind", error.kind()}, {"message", error.message()}});
    return {{"error", std::move(reply)}};
  }
}

json RewrittenAdapter::ask(const std::string& op, const json& args) {
  json reply = rewrite_(op, args, reply_to(op, args));
  if (reply.contains("result")) return std::move(reply["result"]);
  const json& error = reply.at("error");
  std::map<std::string, std::string> fields;
  for (const auto& [name, value] : error.items())
    if (name != "kind" && name != "message") fields[name] = value;
  throw suite::AdapterError(op, error.at("kind"), error.at("message"), std::move(fields));
}

json EditedAdapter::ask(const std::string& op, const json& args) {
  const WovenHere here;
  return inner_.ask(op, args);
}

}  // namespace plumbline::mutants
