// harness/subject/training_module.hpp: LibTorch's side of the suite, opened when a check or command needs it.
#pragma once

#include <string>

namespace plumbline::training {
class Training;  // reference/training/training.hpp
}

namespace plumbline::subject {

/// The training module of this process, opened at the first call; any thread. Throws NotAvailable where LibTorch is
/// absent.
[[nodiscard]] training::Training& training_module();
/// The same without a mutant's edits: of a woven build the product's module, which is opened beside the woven one, and
/// shares none of its functions. Else it is training_module().
[[nodiscard]] training::Training& clean_training_module();
/// Why it cannot be opened here; "": it can.
[[nodiscard]] std::string why_no_training();

}  // namespace plumbline::subject
