// A compiler for processes that have brought none: Python, embedded when it is first needed.
//
// Nothing of Python is linked: libpython is opened by the name that an interpreter gives when it is
// asked, and its few functions are found by theirs. That interpreter is the one HLOOM_PYTHON names,
// else the one beside this library (a virtual environment's), else python3.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <utility>

#include "loading.h"

namespace hloom::pjrt {
namespace {

std::mutex embedding_mutex;
std::string embedding_error;  // what the Python side said

// Says, line by line: its libpython, itself, which packages it lacks.
const char kProbe[] =
    "import sys, os, sysconfig, importlib.util as u\n"
    "v = sysconfig.get_config_var\n"
    "folders = [v('LIBDIR'), os.path.join(sys.base_prefix, 'lib'), v('LIBPL')]\n"
    "names = [n for n in (v('INSTSONAME'), v('LDLIBRARY')) if n and not n.endswith('.a')]\n"
    "paths = [os.path.join(f, n) for f in folders if f for n in names]\n"
    "print(next(filter(os.path.exists, paths), ''))\n"
    "print(sys.executable)\n"
    "print(*[m for m in ('numpy', 'llvmlite', 'jaxlib') if u.find_spec(m) is None])\n";

struct Interpreter {
  std::string library, executable, lacks;
};

PJRT_Error* cannot(const std::string& why) {
  return failure(PJRT_Error_Code_FAILED_PRECONDITION,
                 "hloom compiles in Python, and cannot start it here: " + why +
                     "; HLOOM_PYTHON names the interpreter to take (saved executables need none) "
                     "[compiler]");
}

std::string quoted_for_shell(const std::string& text) {
  std::string made = "'";
  for (char c : text) made += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return made + "'";
}

std::string quoted_for_python(const std::string& text) {
  std::string made = "'";
  for (char c : text) {
    if (c == '\'' || c == '\\') made += '\\';
    made += c;
  }
  return made + "'";
}

// Where this library is; empty if nobody can tell.
std::string own_path() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&own_path), &info) == 0 || info.dli_fname == nullptr)
    return {};
  char* whole = realpath(info.dli_fname, nullptr);
  std::string path = whole == nullptr ? info.dli_fname : whole;
  free(whole);
  return path;
}

std::string parent(const std::string& path) {
  size_t at = path.rfind('/');
  return at == std::string::npos ? "" : path.substr(0, at);
}

// The folder that hloom's package is in: <folder>/hloom/runtime/native/libhloom_runtime.so.
std::string package_root() { return parent(parent(parent(parent(own_path())))); }

// Interpreters to ask, best first.
std::vector<std::string> candidates() {
  if (const char* named = getenv("HLOOM_PYTHON"); named != nullptr && *named != 0) return {named};
  std::vector<std::string> made;
  std::string root = package_root();
  made.push_back(root + "/.venv/bin/python");  // of a checkout
  // <environment>/lib/python3.x/site-packages
  made.push_back(parent(parent(parent(root))) + "/bin/python3");
  std::erase_if(made, [](const std::string& path) { return access(path.c_str(), X_OK) != 0; });
  made.push_back("python3");
  return made;
}

bool ask(const std::string& name, Interpreter* found) {
  std::string command = quoted_for_shell(name) + " -c " + quoted_for_shell(kProbe) + " 2>/dev/null";
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return false;
  std::string told;
  char piece[512];
  while (size_t size = fread(piece, 1, sizeof(piece), pipe)) told.append(piece, size);
  if (pclose(pipe) != 0) return false;
  std::string* lines[] = {&found->library, &found->executable, &found->lacks};
  size_t at = 0;
  for (std::string* line : lines) {
    size_t end = told.find('\n', at);
    if (end == std::string::npos) return false;
    *line = told.substr(at, end - at);
    at = end + 1;
  }
  return true;
}

// The functions of libpython that it takes.
struct Python {
  int (*is_initialized)();
  void (*initialize)(int signals);
  wchar_t* (*decode)(const char* text, size_t* size);
  void (*set_program_name)(const wchar_t* name);
  int (*run)(const char* code);
  void* (*save_thread)();
  int (*ensure)();
  void (*leave)(int state);

  bool find(void* library) {
    auto set = [&](auto* function, const char* name) {
      *reinterpret_cast<void**>(function) = dlsym(library, name);
      return *function != nullptr;
    };
    return set(&is_initialized, "Py_IsInitialized") & set(&initialize, "Py_InitializeEx") &
           set(&decode, "Py_DecodeLocale") & set(&set_program_name, "Py_SetProgramName") &
           set(&run, "PyRun_SimpleString") & set(&save_thread, "PyEval_SaveThread") &
           set(&ensure, "PyGILState_Ensure") & set(&leave, "PyGILState_Release");
  }
};

// What Python runs to be the compiler of this library, and of no other copy of it.
std::string start_code() {
  std::string library = quoted_for_python(own_path());
  return "try:\n"
         "    import os, sys\n"
         "    os.environ['HLOOM_RUNTIME_LIBRARY'] = " +
         library +
         "\n"
         "    sys.path.append(" +
         quoted_for_python(package_root()) +
         ")\n"
         "    from hloom.plugin.embedded import start\n"
         "    start()\n"
         "except BaseException as error:\n"
         "    import ctypes\n"
         "    words = f'{type(error).__name__}: {error}'.encode(errors='replace')\n"
         "    ctypes.CDLL(" +
         library + ").hl_pjrt_embedding_failed(words)\n";
}

PJRT_Error* started(const Python& python) {
  embedding_error.clear();
  int status = python.run(start_code().c_str());
  if (embedding_error.empty() && status == 0) return nullptr;
  return cannot(embedding_error.empty() ? "its start failed" : embedding_error);
}

PJRT_Error* embed() {
  Interpreter chosen;
  std::string asked;
  for (const std::string& name : candidates()) {
    Interpreter found;
    if (!ask(name, &found)) asked += (asked.empty() ? "" : ", ") + name + " does not run";
    else if (found.library.empty())
      asked += (asked.empty() ? "" : ", ") + name + " has no shared libpython";
    else if (!found.lacks.empty())
      asked += (asked.empty() ? "" : ", ") + name + " has no package " + found.lacks;
    else {
      chosen = std::move(found);
      break;
    }
  }
  if (chosen.library.empty()) return cannot(asked);
  void* library = dlopen(chosen.library.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) return cannot(dlerror());
  Python python;
  if (!python.find(library))
    return cannot(chosen.library + " lacks functions of CPython 3.11 to 3.13");
  // By the interpreter's name Python finds its environment, and so its packages.
  python.set_program_name(python.decode(chosen.executable.c_str(), nullptr));
  python.initialize(0);
  PJRT_Error* error = started(python);
  python.save_thread();
  return error;
}

}  // namespace

PJRT_Error* have_compiler() {
  if (Compiler{}) return nullptr;
  if (compiler_has_ended())
    return failure(PJRT_Error_Code_FAILED_PRECONDITION,
                   "hloom's compiler has ended with its process [compiler]");
  std::lock_guard<std::mutex> guard(embedding_mutex);
  if (Compiler{}) return nullptr;
  Python python;
  if (!python.find(RTLD_DEFAULT) || !python.is_initialized()) return embed();
  int state = python.ensure();
  PJRT_Error* error = started(python);
  python.leave(state);
  return error;
}

}  // namespace hloom::pjrt

// The Python side tells why it cannot compile.
HL_API void hl_pjrt_embedding_failed(const char* why) { hloom::pjrt::embedding_error = why; }
