/* SPDX-License-Identifier: MIT
 *
 * Which version of each library: that of the job's own copy, where it has loaded one; else the one of CUDA 13.2, as
 * the driver's is (the packages of PyTorch 2.15.0 are of it).
 */
#include "sim/sim.h"

struct version {
	int parts[3]; /* by libraryPropertyType: major, minor, patch */
};

struct library {
	const char *sonames[4];
	const char *property; /* its (libraryPropertyType, int *) */
	struct version assumed;
	int invalid; /* its status for a bad argument; 0: all is well */
};

static const struct library cublas = {{"libcublas.so.13", "libcublas.so.12"}, "cublasGetProperty", {{13, 4, 1}}, 7};
static const struct library cublas_lt = {
    {"libcublasLt.so.13", "libcublasLt.so.12"}, "cublasLtGetProperty", {{13, 4, 1}}, 7};
static const struct library cudnn = {{"libcudnn.so.9", "libcudnn.so.8"}, "cudnnGetProperty", {{9, 26, 0}}, 2000};
static const struct library cufft = {{"libcufft.so.12", "libcufft.so.11"}, "cufftGetProperty", {{12, 2, 0}}, 4};
static const struct library cusolver = {
    {"libcusolver.so.12", "libcusolver.so.11"}, "cusolverGetProperty", {{12, 2, 0}}, 3};
static const struct library cusparse = {{"libcusparse.so.12"}, "cusparseGetProperty", {{12, 7, 10}}, 3};

static struct version find(const struct library *library)
{
	int (*property)(int, int *) = (int (*)(int, int *))vs_real(library->sonames, library->property);
	struct version found;

	for (int i = 0; i < 3; i++)
		if (!property || property(i, &found.parts[i]) != 0)
			return library->assumed;
	return found;
}

static int part(const struct library *library, int type, int *ret)
{
	if (type < 0 || type > 2 || !ret)
		return library->invalid;
	*ret = find(library).parts[type];
	return 0;
}

/* In one number: 1000 or 10000 times the major one, 100 times the minor one. */
static int number(const struct library *library, int majors)
{
	struct version version = find(library);

	return majors * version.parts[0] + 100 * version.parts[1] + version.parts[2];
}

static int number_to(const struct library *library, int majors, int *ret)
{
	if (!ret)
		return library->invalid;
	*ret = number(library, majors);
	return 0;
}

#define PROPERTY(library, name)                                                                                      \
	VS_API int name##GetProperty(int type, int *value)                                                           \
	{                                                                                                            \
		return part(&library, type, value);                                                                  \
	}

PROPERTY(cublas, cublas)
PROPERTY(cublas_lt, cublasLt)
PROPERTY(cudnn, cudnn)
PROPERTY(cufft, cufft)
PROPERTY(cusolver, cusolver)
PROPERTY(cusparse, cusparse)

VS_API int cublasGetVersion_v2(void *handle, int *version)
{
	(void)handle;
	return number_to(&cublas, 10000, version);
}

VS_API size_t cublasLtGetVersion(void)
{
	return (size_t)number(&cublas_lt, 10000);
}

VS_API size_t cudnnGetVersion(void)
{
	return (size_t)number(&cudnn, 10000);
}

VS_API int cufftGetVersion(int *version)
{
	return number_to(&cufft, 1000, version);
}

VS_API int cusolverGetVersion(int *version)
{
	return number_to(&cusolver, 1000, version);
}

VS_API int cusparseGetVersion(void *handle, int *version)
{
	(void)handle;
	return number_to(&cusparse, 1000, version);
}
