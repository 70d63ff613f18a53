#include "cli/commands.h"

int main(int argc, char** argv) {
  return zeroplan::cli::run_program(argc, argv);
}
