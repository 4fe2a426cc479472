// SPDX-License-Identifier: MIT
//
// C++ exceptions that come through the recorder's frames: thrown in the middle of a real call, caught by the job.
#include <cstdio>
#include <stdexcept>

extern "C" {
#include "host.h"
}

namespace
{

int destroyed;

struct Object {
	~Object()
	{
		destroyed++;
	}
};

void raise_inside()
{
	mock_set_inside(nullptr);
	Object object;
	throw std::runtime_error("from inside");
}

__attribute__((noinline)) void call(int depth)
{
	Object object;
	void *pointer;

	if (depth)
		call(depth - 1);
	else
		cudaMalloc(&pointer, 512);
}

// From many depths, so that the next call may come from further down than the one that was left.
void exceptions()
{
	int caught = 0;

	for (int i = 0; i < 30; i++) {
		mock_set_inside(raise_inside);
		try {
			call(i);
		} catch (const std::runtime_error &error) {
			caught++;
		}
		call(3);
		host_count(1, 0);
		host_give(host_take(512), 512);
	}
	std::printf("%d caught, %d destroyed\n", caught, destroyed);
	host_counted();
}

} // namespace

const struct scenario host_exceptions[] = {{"exceptions", exceptions}, {nullptr, nullptr}};
