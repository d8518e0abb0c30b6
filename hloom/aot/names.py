"""Names in C: what arrays and functions of a library are called, whatever they were called before.

A header stands beside others in C and in C++. So names are no keywords of either, none of the
macros that the standard headers and compilers define, and a function is called like none of the C
library's: a program that is linked with an `exp` of ours computes all its exponentials with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from hloom.api import HloError, UsageError

KEYWORDS = frozenset(
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t "
    "char32_t class co_await co_return co_yield compl concept const const_cast consteval constexpr "
    "constinit continue decltype default delete do double dynamic_cast else enum explicit export "
    "extern false float for friend goto if inline int long mutable namespace new noexcept not "
    "not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires "
    "restrict return short signed sizeof static static_assert static_cast struct switch template "
    "this thread_local throw true try typedef typeid typename typeof typeof_unqual union unsigned "
    "using virtual void volatile wchar_t while xor xor_eq _Alignas _Alignof _Atomic _BitInt _Bool "
    "_Complex _Decimal32 _Decimal64 _Decimal128 _Generic _Imaginary _Noreturn _Static_assert "
    "_Thread_local _Float16".split()
)
"""Of C23 and C++23."""
MACROS = frozenset(
    "BUFSIZ CHAR_BIT CHAR_MAX CHAR_MIN CLOCKS_PER_SEC DBL_MAX DBL_MIN EDOM EILSEQ EOF ERANGE "
    "EXIT_FAILURE EXIT_SUCCESS FILENAME_MAX FLT_MAX FLT_MIN FOPEN_MAX HUGE_VAL HUGE_VALF HUGE_VALL "
    "I INFINITY INT_MAX INT_MIN LDBL_MAX LLONG_MAX LLONG_MIN LONG_MAX LONG_MIN L_tmpnam "
    "M_1_PI M_2_PI M_2_SQRTPI M_E M_LN10 M_LN2 M_LOG10E M_LOG2E M_PI M_PI_2 M_PI_4 M_SQRT1_2 "
    "M_SQRT2 MB_CUR_MAX MB_LEN_MAX NAN NDEBUG NULL RAND_MAX SCHAR_MAX SCHAR_MIN SEEK_CUR SEEK_END "
    "SEEK_SET SHRT_MAX SHRT_MIN SIGABRT SIGFPE SIGILL SIGINT SIGSEGV SIGTERM SIZE_MAX TMP_MAX "
    "UCHAR_MAX UINT_MAX ULLONG_MAX ULONG_MAX USHRT_MAX WCHAR_MAX WCHAR_MIN WEOF assert "
    "complex errno i386 imaginary linux noreturn offsetof setjmp unix va_arg va_copy "
    "va_end va_start".split()
)
"""Of the standard headers, and of compilers for their system."""
_SIZED_MACRO = re.compile(r"(U?INT(_LEAST|_FAST)?\d+|U?INTMAX|U?INTPTR|PTRDIFF)_(MAX|MIN|C)")
"""Of <stdint.h>."""
_RESERVED = re.compile(r"__\w*__")
"""Macros of compilers: `__FILE__`, `__linux__`."""
C_LIBRARY = frozenset(
    # What the library itself calls, and C's memory, strings, files, time and processes.
    "main memcpy memmove memset memcmp memchr malloc calloc realloc free aligned_alloc abort exit "
    "atexit getenv system qsort bsearch abs labs llabs div ldiv lldiv rand srand atof atoi atol "
    "atoll strtod strtof strtol strtoll strtoul strtoull strlen strcpy strncpy strcat strncat "
    "strcmp strncmp strcoll strchr strrchr strstr strtok strspn strcspn strpbrk strerror strdup "
    "strndup printf fprintf sprintf snprintf vprintf vfprintf vsprintf vsnprintf scanf fscanf "
    "sscanf fopen freopen fclose fflush fread fwrite fseek ftell rewind fgetc fgets fputc fputs "
    "getc getchar putc putchar puts ungetc feof ferror perror clearerr setbuf setvbuf tmpfile "
    "tmpnam rename remove stdin stdout stderr time clock difftime mktime gmtime localtime asctime "
    "ctime strftime signal raise longjmp isalnum isalpha iscntrl isdigit isgraph islower isprint "
    "ispunct isspace isupper isxdigit tolower toupper setlocale localeconv wcslen wcscpy mbtowc "
    # Numbers.
    "acos asin atan atan2 cos sin tan acosh asinh atanh cosh sinh tanh exp exp2 expm1 log log2 "
    "log10 log1p logb ilogb frexp ldexp modf scalbn scalbln cbrt sqrt hypot pow erf erfc lgamma "
    "tgamma gamma ceil floor nearbyint rint lrint llrint round lround llround trunc fmod remainder "
    "remquo copysign nan nextafter nexttoward fdim fmax fmin fabs fma j0 j1 jn y0 y1 yn cabs carg "
    "cexp clog conj cpow creal cimag csin ccos csqrt "
    # POSIX.
    "open close read write lseek stat fstat access chdir mkdir rmdir unlink link pipe dup fork "
    "execve wait waitpid kill sleep usleep nanosleep alarm pause select poll send recv socket bind "
    "listen accept connect shutdown mmap munmap mprotect brk sbrk index rindex bcopy bzero ffs "
    "random srandom sync truncate dlopen dlsym dlclose environ".split()
)
"""Functions, and a few objects, that programs in C find by these names; of those in <math.h> the
ones that end in `f` and `l`, too."""
_SUFFIXED = re.compile(r"(\w+[a-z0-9])[fl]")
_TYPE = re.compile(r"u?int(_least|_fast)?\d+_t|u?int(max|ptr)_t|s?size_t|ptrdiff_t|time_t|off_t")
ENDINGS = re.compile(r"_(BYTES|ALIGNMENT|RANK|TYPE|DIM\d+)$")
"""What constants of the header have behind the name of an array."""
LONGEST = 200
"""Letters in the name of a function: files that are made on the way are called after it."""


def is_taken(name: str) -> bool:
    """Whether a name means something else in a program in C or C++."""
    if name in KEYWORDS or name in MACROS or name == "workspace":
        return True
    return bool(_SIZED_MACRO.fullmatch(name) or _RESERVED.fullmatch(name))


def c_name(text: str) -> str:
    """A text as a name in C."""
    name = re.sub(r"\W", "_", text, flags=re.ASCII) or "_"
    if is_taken(name) or ENDINGS.search(name):
        return f"{name}_"
    return f"_{name}" if name[0].isdigit() else name


def check_function(name: str) -> None:
    """`UsageError` where a library's function cannot be called so."""
    suffixed = _SUFFIXED.fullmatch(name)
    if (
        name in C_LIBRARY
        or _TYPE.fullmatch(name)
        or (suffixed is not None and suffixed[1] in C_LIBRARY)
    ):
        raise UsageError(
            f"a library's function cannot be called {name}: the C library has one of that name",
            rule="library-name",
            hint=f"--name my_{name}, name='my_{name}'",
        )
    if len(name) > LONGEST:
        raise UsageError(
            f"a library's function has a name of {LONGEST} letters at most, and {name[:20]}... "
            f"has {len(name)}",
            rule="library-name",
            hint="--name model, name='model'",
        )


def distinct(names: Sequence[str]) -> list[str]:
    """Names in C for these texts, each once; numbers go behind those that would repeat."""
    distinct_names: dict[str, None] = {}
    numbers: dict[str, int] = {}
    for text in names:
        name = base = c_name(text)
        while name in distinct_names:
            numbers[base] = numbers.get(base, 1) + 1
            name = f"{base}_{numbers[base]}"
        distinct_names[name] = None
    return list(distinct_names)


def checked_names(names: Sequence[str], own: Sequence[str], what: str) -> list[str]:
    """Names that somebody chose in place of the arrays' own; `HloError` unless there is one for
    each, and each once."""
    if len(names) != len(own):
        raise HloError(
            f"{len(names)} names for {len(own)} {what.lower()}s: {_listed(names)}",
            rule="library-names",
            hint=f"one for each, in this order: {_listed(own)}",
        )
    in_c = [c_name(n) for n in names]
    if len(set(in_c)) != len(names):
        repeated = [(n, c) for n, c in zip(names, in_c) if in_c.count(c) > 1]
        are = (
            ""
            if all(n == c for n, c in repeated)
            else f" (in C: {_listed(c for _, c in repeated)})"
        )
        raise HloError(
            f"{what} names must be unique: {_listed(n for n, _ in repeated)}{are}",
            rule="library-names",
        )
    return in_c


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
