// The picture of `plumbline buckets`.
//
// Layout  Time from left to right: the backward, cut into the gradients that it makes one after the other; below it the
//         reductions, each from its start to its end, with a thin line from when its bucket was complete. What is
//         after the end of the backward pass is exposed, and shaded. Below, a bar for each bucket, as long as it has
//         bytes, cut into its gradients where they lie; what lies between them and after them is hatched; ticks of
//         bytes below the bars. A colour for each bucket, two shades of it in turn for its gradients.
#include "harness/cli/buckets_svg.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "harness/cli/schedule_view.hpp"
#include "harness/cli/svg.hpp"
#include "harness/run/counted.hpp"

namespace plumbline::cli {
namespace {

using bucketing::Bucket;
using bucketing::Member;
using bucketing::Plan;

constexpr double kLeft = 96, kWidth = 960, kRight = 150, kTimeTop = 74, kRow = 30, kGap = 12;
constexpr double kBars = 620;  // for all bars, unless they would become too thin or too thick
constexpr std::array<Colour, 8> kColours{{{47, 111, 190},
                                          {213, 94, 0},
                                          {24, 116, 78},
                                          {204, 121, 167},
                                          {230, 150, 20},
                                          {86, 80, 160},
                                          {120, 94, 70},
                                          {60, 150, 160}}};

std::string readable_bytes(double bytes) {
  for (const char* unit : {"B", "KiB", "MiB"}) {
    if (bytes < 1024) return fmt::format("{:.{}f} {}", bytes, bytes < 10 && *unit != 'B' ? 1 : 0, unit);
    bytes /= 1024;
  }
  return fmt::format("{:.1f} GiB", bytes);
}

struct Box {
  double x = 0, y = 0, width = 0, height = 0;
};
std::string box(const Box& at, const std::string& fill, const std::string& title) {
  return svg_rectangle(at.x, at.y, std::max(at.width, 0.3), at.height, fill, title);
}

class Picture {
 public:
  Picture(const Plan& plan, const bucketing::NamedGradients& named, const BackwardShown& backward,
          const bucketing::Exposure& exposure)
      : plan_(plan), named_(named), backward_(backward), exposure_(exposure), bucket_of_(named.gradients.size(), -1) {
    for (std::size_t i = 0; i < plan.buckets.size(); ++i) {
      for (const Member& member : plan.members_of(plan.buckets[i]))
        bucket_of_[static_cast<std::size_t>(member.gradient)] = static_cast<int>(i);
      most_bytes_ = std::max(most_bytes_, plan.buckets[i].bytes());
    }
    end_ = backward.seconds;
    for (const bucketing::PredictedReduction& launch : exposure.launches) end_ = std::max(end_, launch.end);
    bar_ = std::clamp(kBars / static_cast<double>(std::max<std::size_t>(plan.buckets.size(), 1)), 4.0, 26.0);
  }

  [[nodiscard]] std::string text() const {
    const double bars_top = kTimeTop + 2 * (kRow + kGap) + 64;
    const double height = bars_top + bar_ * static_cast<double>(plan_.buckets.size()) + 40;
    const std::string head = svg_text(
        24, 32, 17, "start",
        fmt::format("{} in {}: {:.4g} ms of communication, {:.4g} ms exposed after a "
                    "backward of {:.4g} ms",
                    run::counted(plan_.members.size(), "gradient"), run::counted(plan_.buckets.size(), "bucket"),
                    1e3 * exposure_.communication, 1e3 * exposure_.exposed, 1e3 * backward_.seconds));
    return svg_page(kLeft + kWidth + kRight, height,
                    head + exposed() + backward() + reductions() + axis() + bars(bars_top), "",
                    "<pattern id=\"padding\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">"
                    "<path d=\"M0 6L6 0\" stroke=\"#888\" stroke-width=\"1\"/></pattern>");
  }

 private:
  [[nodiscard]] double at(double seconds) const { return kLeft + (end_ > 0 ? seconds / end_ * kWidth : 0); }
  [[nodiscard]] static Colour colour_of(int bucket) {
    return kColours[static_cast<std::size_t>(bucket) % kColours.size()];
  }
  /// Neighbours in a bucket differ.
  [[nodiscard]] static Colour shade(int bucket, std::size_t place) {
    return bucket < 0 ? Colour{221, 221, 221} : colour_of(bucket).lighter(place % 2 == 0 ? 0.0 : 0.35);
  }
  [[nodiscard]] std::string name_of(int gradient) const { return named_.names[static_cast<std::size_t>(gradient)]; }

  [[nodiscard]] std::string exposed() const {
    if (exposure_.exposed <= 0) return {};
    const double from = at(backward_.seconds);
    return svg_rectangle(from, kTimeTop - 8, std::max(at(end_) - from, 0.3), 2 * kRow + kGap + 16, "#f6dcd6", "exposed",
                         kPaper) +
           svg_text(at(end_) + 6, kTimeTop + kRow / 2 + 4, 12, "start",
                    fmt::format("exposed: {:.3g} ms", 1e3 * exposure_.exposed), "#a03010");
  }
  [[nodiscard]] std::string backward() const {
    std::string svg = svg_text(kLeft - 8, kTimeTop + kRow / 2 + 4, 12, "end", "backward");
    std::vector<int> order(backward_.ready.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {},
                             [&](int gradient) { return backward_.ready[static_cast<std::size_t>(gradient)]; });
    double begin = 0;
    std::size_t place = 0;
    for (const int gradient : order) {
      const double end = backward_.ready[static_cast<std::size_t>(gradient)];
      const int bucket = bucket_of_[static_cast<std::size_t>(gradient)];
      svg += box({at(begin), kTimeTop, at(end) - at(begin), kRow}, shade(bucket, place++).text(),
                 fmt::format("{}: there after {:.4g} ms, bucket {}", name_of(gradient), 1e3 * end, bucket));
      begin = end;
    }
    return svg;
  }
  [[nodiscard]] std::string reductions() const {
    const double top = kTimeTop + kRow + kGap;
    std::string svg = svg_text(kLeft - 8, top + kRow / 2 + 4, 12, "end", "reductions");
    for (std::size_t i = 0; i < exposure_.launches.size(); ++i) {
      const auto& [ready, start, end] = exposure_.launches[i];
      const Colour colour = colour_of(static_cast<int>(i));
      svg += fmt::format(R"(<path d="M{0:.2f} {1:.2f}V{2:.2f}H{3:.2f}" fill="none" stroke="{4}" stroke-width="1"/>)",
                         at(ready), kTimeTop + kRow, top - 4, at(start), colour.text()) +
             '\n';
      svg += box({at(start), top, at(end) - at(start), kRow}, colour.text(),
                 fmt::format("bucket {}: complete after {:.4g} ms, reduced from {:.4g} to {:.4g} ms", i, 1e3 * ready,
                             1e3 * start, 1e3 * end));
      if (at(end) - at(start) > 18)
        svg += svg_text((at(start) + at(end)) / 2, top + kRow / 2 + 4, 12, "middle", std::to_string(i), colour.ink());
    }
    return svg;
  }
  [[nodiscard]] std::string axis() const {
    const double y = kTimeTop + 2 * kRow + kGap + 14;
    std::string svg = fmt::format(R"(<path d="M{:.1f} {:.1f}H{:.1f}" stroke="#666"/>)", at(0), y, at(end_)) + '\n';
    const double tick = end_ > 0 ? tick_of(1e3 * end_, 10) / 1e3 : 1;
    for (int i = 0; tick * i <= end_ * (1 + 1e-9); ++i) {
      const double seconds = tick * i;
      svg += fmt::format(R"(<path d="M{0:.1f} {1:.1f}v5" stroke="#666"/>)", at(seconds), y) + '\n' +
             svg_text(at(seconds), y + 18, 11, "middle", fmt::format("{:.3g}", 1e3 * seconds));
    }
    return svg + svg_text(kLeft - 22, y + 18, 11, "end", "time, ms");
  }
  [[nodiscard]] std::string bars(double top) const {
    std::string svg;
    for (std::size_t i = 0; i < plan_.buckets.size(); ++i) svg += bar(i, top + bar_ * static_cast<double>(i));
    return most_bytes_ > 0 ? svg + bytes_axis(top + bar_ * static_cast<double>(plan_.buckets.size()) + 4) : svg;
  }
  // Below the bars, with ticks at powers of two or their multiples.
  [[nodiscard]] std::string bytes_axis(double y) const {
    const double most = static_cast<double>(most_bytes_),
                 tick = std::max(1.0, std::exp2(std::ceil(std::log2(most / 10))));
    std::string svg = fmt::format(R"(<path d="M{:.1f} {:.1f}H{:.1f}" stroke="#666"/>)", kLeft, y, kLeft + kWidth) +
                      '\n' + svg_text(kLeft - 22, y + 18, 11, "end", "size");
    for (int i = 0; tick * i <= most; ++i) {
      const double x = kLeft + tick * i / most * kWidth;
      svg += fmt::format(R"(<path d="M{0:.1f} {1:.1f}v5" stroke="#666"/>)", x, y) + '\n' +
             svg_text(x, y + 18, 11, "middle", readable_bytes(tick * i));
    }
    return svg;
  }
  [[nodiscard]] std::string bar(std::size_t number, double y) const {
    const Bucket& bucket = plan_.buckets[number];
    const double height = bar_ - (bar_ > 8 ? 4 : 1);
    const double scale = most_bytes_ > 0 ? kWidth / static_cast<double>(most_bytes_) : 0;
    const double element = scale * bytes_of_element(bucket);
    std::string svg = box({kLeft, y, scale * static_cast<double>(bucket.bytes()), height}, "url(#padding)", "padding");
    std::size_t place = 0;
    for (const Member& member : plan_.members_of(bucket)) {
      const auto elements = named_.gradients[static_cast<std::size_t>(member.gradient)].elements;
      const Colour colour = shade(static_cast<int>(number), place++);
      const Box at{kLeft + static_cast<double>(member.begin) * element, y, static_cast<double>(elements) * element,
                   height};
      svg += box(at, colour.text(),
                 fmt::format("{}: {} elements from {}", name_of(member.gradient), elements, member.begin)) +
             name_inside(at, name_of(member.gradient), colour);
    }
    if (bar_ < 11) return svg;
    return svg + svg_text(kLeft - 8, y + height / 2 + 4, 11, "end", fmt::format("bucket {}", number)) +
           svg_text(kLeft + scale * static_cast<double>(bucket.bytes()) + 6, y + height / 2 + 4, 11, "start",
                    fmt::format("{} in {}", readable_bytes(static_cast<double>(bucket.bytes())), bucket.members));
  }
  // The end of a name says which gradient it is; nothing where too little of it would fit.
  [[nodiscard]] static std::string name_inside(const Box& at, const std::string& name, Colour colour) {
    constexpr double kLetter = 6, kLeast = 4;
    const auto room = static_cast<std::size_t>(std::max(0.0, at.width / kLetter - 1));
    if (at.height < 10 || room < std::min<std::size_t>(kLeast, name.size())) return {};
    std::size_t from = name.size() <= room ? 0 : name.size() - room + 2;
    while (from < name.size() && (static_cast<unsigned char>(name[from]) & 0xc0) == 0x80) ++from;  // in a character
    const std::string shown = from == 0 ? name : ".." + name.substr(from);
    return svg_text(at.x + at.width / 2, at.y + at.height / 2 + 4, 10, "middle", shown, colour.ink());
  }
  static double bytes_of_element(const Bucket& bucket) {
    return bucket.elements == 0 ? 0 : static_cast<double>(bucket.bytes()) / static_cast<double>(bucket.elements);
  }

  const Plan& plan_;
  const bucketing::NamedGradients& named_;
  const BackwardShown& backward_;
  const bucketing::Exposure& exposure_;
  std::vector<int> bucket_of_;
  std::int64_t most_bytes_ = 0;
  double end_ = 0, bar_ = 0;
};

}  // namespace

std::string buckets_svg(const Plan& plan, const bucketing::NamedGradients& named, const BackwardShown& backward,
                        const bucketing::Exposure& exposure) {
  return Picture(plan, named, backward, exposure).text();
}

}  // namespace plumbline::cli
