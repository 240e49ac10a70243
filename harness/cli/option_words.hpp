// harness/cli/option_words.hpp: what is wrong with settings, in the names of the options that set them.
#pragma once

#include <string>

#include "harness/cli/arguments.hpp"

namespace plumbline::cli {

/// A message about fields of a run specification or of a trainer's settings, as one about options of `plumbline train`:
/// "run.micro_batches = 7; it must be …" becomes "--micro-batches 7; it must be …".
[[nodiscard]] std::string in_options_of_train(std::string words);

/// What `body` returns; its errors name options of train.
template <class Body>
auto in_options_of_train(const Body& body) -> decltype(body()) {
  try {
    return on_behalf_of("", body);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(in_options_of_train(std::string(error.what())));
  }
}

}  // namespace plumbline::cli
