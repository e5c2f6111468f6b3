// What redirect_caller.cc calls.
extern "C" int HocketTestAnswer(int question) { return question + 1; }
extern "C" int HocketTestOther() { return 42; }
