// A library that calls another one: built twice, bound lazily and with read-only imports (BINDING is Lazy or
// Now).
#define HOCKET_JOIN_INNER(a, b) a##b
#define HOCKET_JOIN(a, b) HOCKET_JOIN_INNER(a, b)

extern "C" {
int HocketTestAnswer(int question);
int HocketTestOther();

int HOCKET_JOIN(Ask, BINDING)(int question) { return HocketTestAnswer(question); }
int HOCKET_JOIN(AskOther, BINDING)() { return HocketTestOther(); }
// An import of its own kind: the address is taken.
void* HOCKET_JOIN(AddressIn, BINDING)() { return reinterpret_cast<void*>(&HocketTestAnswer); }
}
