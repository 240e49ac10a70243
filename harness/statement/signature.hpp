// harness/statement/signature.hpp: digests and signatures of files, by the tools that machines have: sha256sum and
// ssh-keygen. Keys stay with them.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace plumbline::statement {

/// The SHA-256 of files in a folder, 64 digits, by name. Throws RuntimeFailure where one cannot be read.
[[nodiscard]] std::map<std::string, std::string> digests_of(const std::filesystem::path& folder,
                                                            const std::vector<std::string>& names);

/// Signs a file with a private key, or with that which an agent has for a public one: FILE.sig beside it. Throws
/// InvalidArgument for what is no key, RuntimeFailure without ssh-keygen.
void sign(const std::filesystem::path& file, const std::filesystem::path& key);

struct Signer {
  std::string name;     // of those that `signers` has; empty: nobody's
  std::string problem;  // in words; empty: the signature is good
};
/// Whose FILE.sig is. `signers` is a file of names and public keys, as ssh-keygen calls ALLOWED SIGNERS; without one
/// the signature is only held against the key in it, whosever that is.
[[nodiscard]] Signer signer_of(const std::filesystem::path& file, const std::filesystem::path& signers);

}  // namespace plumbline::statement
