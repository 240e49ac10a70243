# Writes OUTPUT, a C++ source that defines the text of INPUT as SYMBOL; see PlumblineEmbed.cmake.
file(READ ${INPUT} text)
file(WRITE ${OUTPUT}
"#include <string_view>
extern const std::string_view ${SYMBOL};
const std::string_view ${SYMBOL} = R\"embedded(${text})embedded\";
")
