#include "harness/subject/nccl/board.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "reference/comm/errors.hpp"

namespace plumbline::subject::nccl {
namespace {

// Zero where nobody wrote must be a valid start of all that lies here.
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<Status>::is_always_lock_free);
static_assert(static_cast<int>(Status::not_come) == 0);

[[noreturn]] void refuse_file(const std::filesystem::path& file) {
  throw RuntimeFailure(fmt::format("backend nccl: cannot share '{}': {}", file.string(), std::strerror(errno)));
}

}  // namespace

SharedFile::SharedFile(std::filesystem::path file, std::size_t bytes) : file_(std::move(file)), bytes_(bytes) {
  // A world of one needs no file.
  int descriptor = -1;
  if (!file_.empty()) {
    descriptor = ::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (descriptor < 0) refuse_file(file_);
    if (::ftruncate(descriptor, static_cast<off_t>(bytes)) != 0) {
      ::close(descriptor);
      refuse_file(file_);
    }
  }
  data_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, descriptor < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED,
                 descriptor, 0);
  if (descriptor >= 0) ::close(descriptor);
  if (data_ == MAP_FAILED) refuse_file(file_);
}

SharedFile::~SharedFile() { ::munmap(data_, bytes_); }

void SharedFile::remove() noexcept {
  if (!file_.empty()) ::unlink(file_.c_str());
}

GroupBoard::GroupBoard(const std::filesystem::path& folder, std::uint64_t group, int members)
    : file_(folder.empty() ? folder : folder / fmt::format("nccl-group-{:016x}", group),
            sizeof(GroupHeader) + static_cast<std::size_t>(members) * sizeof(Seat)),
      members_(members) {}

const char* GroupBoard::abort_words() const noexcept {
  for (int member = 0; member < members_; ++member)
    if (seat(member).status.load(std::memory_order_acquire) == Status::aborted) return seat(member).words.data();
  return nullptr;
}

const char* abort_words(const Lineage& lineage) noexcept {
  for (const auto& board : lineage)
    if (const char* const words = board->abort_words()) return words;
  return nullptr;
}

bool GroupBoard::leave(int member, Status status, const std::string& words) const noexcept {
  Seat& mine = seat(member);
  if (mine.status.load() != Status::member) return false;
  const std::size_t length = std::min(words.size(), mine.words.size() - 1);
  std::memcpy(mine.words.data(), words.data(), length);
  mine.words[length] = '\0';
  mine.status.store(status, std::memory_order_release);
  return true;
}

JobBoard::JobBoard(const std::filesystem::path& folder, int processes)
    : processes_(processes),
      file_(folder.empty() ? folder : folder / "nccl-job",
            static_cast<std::size_t>(processes) * static_cast<std::size_t>(processes) * sizeof(Direction)) {}

}  // namespace plumbline::subject::nccl
