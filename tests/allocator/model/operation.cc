#include "tests/allocator/model/operation.h"

#include <algorithm>
#include <iterator>
#include <sstream>

#include "absl/strings/str_cat.h"

namespace hocket::testing {
namespace {

struct Words {
  const char* verb;
  std::vector<const char*> arguments;
};

// By kind.
const std::vector<Words>& AllWords() {
  static const std::vector<Words> words = {
      {"allocates", {"slot", "bytes", "stream"}},
      {"frees", {"slot"}},
      {"reads", {"slot", "stream"}},
      {"writes", {"slot", "stream"}},
      {"records", {"slot", "stream"}},
      {"begins-step", {}},
      {"ends-step", {}},
      {"is-of-stage", {"slot", "stage"}},
      {"opens-pool", {"pool", "stream", "captures"}},
      {"closes-pool", {"pool"}},
      {"releases-pool", {"pool"}},
      {"checkpoints-pool", {"pool"}},
      {"returns-to-checkpoint", {}},
      {"empties-cache", {}},
      {"passes-turn", {"spill"}},
      {"takes-turn", {"follows"}},
      {"spills", {"chunks", "part"}},
      {"restores", {"chunks"}},
      {"declares-constant", {"slot"}},
      {"awaits-stage", {"stage", "stream"}},
      {"delivers", {}},
      {"is-answered", {"room"}},
      {"is-limited", {"chunks"}},
      {"drops-arena", {}},
      {"restarts", {"verify", "maps"}},
      {"leaves", {"verify", "maps"}},
      {"strays", {"slot"}},
      {"is-near", {"calls"}},
      {"looks", {}},
      {"corrupts", {"slot"}},
      {"skips-waits", {}},
  };
  return words;
}

absl::StatusOr<Operation> Parse(const std::string& line) {
  std::istringstream words(line);
  char job = 0;
  std::string verb;
  words >> job >> verb;
  const auto found = std::find_if(AllWords().begin(), AllWords().end(),
                                  [&](const Words& candidate) { return verb == candidate.verb; });
  Operation operation{.kind = static_cast<Kind>(std::distance(AllWords().begin(), found)),
                      .job = static_cast<std::uint8_t>(job - 'a')};
  bool understood = job >= 'a' && job <= 'c' && found != AllWords().end();
  for (std::size_t i = 0; understood && i < found->arguments.size(); ++i) {
    std::string name;
    understood = (words >> name >> operation.arguments[i]) && name == found->arguments[i];
  }
  if (understood) return operation;
  return absl::InvalidArgumentError(absl::StrCat("this line of the story is no operation: ", line));
}

}  // namespace

std::string Operation::ToString() const {
  const Words& words = AllWords()[static_cast<std::size_t>(kind)];
  std::string line = absl::StrCat(std::string(1, static_cast<char>('a' + job)), " ", words.verb);
  for (std::size_t i = 0; i < words.arguments.size(); ++i) {
    absl::StrAppend(&line, " ", words.arguments[i], " ", arguments[i]);
  }
  return line;
}

std::string ToString(const Story& story) {
  std::string lines;
  for (const Operation& operation : story) absl::StrAppend(&lines, operation.ToString(), "\n");
  return lines;
}

absl::StatusOr<Story> ParseStory(const std::string& lines) {
  Story story;
  std::istringstream input(lines);
  for (std::string line; std::getline(input, line);) {
    const absl::StatusOr<Operation> operation = Parse(line);
    if (!operation.ok()) return operation.status();
    story.push_back(*operation);
  }
  return story;
}

}  // namespace hocket::testing
