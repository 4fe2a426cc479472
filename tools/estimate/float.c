/* SPDX-License-Identifier: MIT
 *
 * vramreport float: what a number becomes, bit by bit, in each of the formats training uses, with and without loss
 * scaling.
 */
#include "estimate.h"

#include "common/message.h"
#include "model/float.h"
#include "option.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
	int format; /* -1: all of them */
	double scale;
	bool table;
	bool json;
};

static const char usage[] =
    "usage: vramreport float VALUE [--format FORMAT] [--scale S] [--json]\n"
    "       vramreport float --table [--json]\n"
    "Shows sign, exponent and mantissa bits of VALUE in each number format, what it becomes when\n"
    "it is rounded to it, and whether it underflows or overflows.\n"
    "  --format FORMAT  only this one: fp32 tf32 bf16 fp16 fp8-e4m3 fp8-e5m2\n"
    "  --scale S        loss scaling: also store VALUE times S, then divide by S again\n"
    "  --table          the range and the precision of every format\n"
    "  --json           one JSON object\n";

static const char *const format_names[] = {"fp32", "tf32", "bf16", "fp16", "fp8-e4m3", "fp8-e5m2", NULL};

static void bit_text(enum vs_float_id id, uint32_t bits, char text[40])
{
	const struct vs_float_format *f = vs_float_format(id);
	int width = 1 + f->exponent_bits + f->mantissa_bits;
	char *p = text;

	for (int i = width - 1; i >= 0; i--) {
		*p++ = bits >> i & 1 ? '1' : '0';
		if (i == width - 1 || i == f->mantissa_bits)
			*p++ = ' ';
	}
	*p = '\0';
}

static json_t *number(double value)
{
	/* JSON has no infinity and no NaN. */
	if (isnan(value))
		return json_string("NaN");
	if (isinf(value))
		return json_string(value < 0 ? "-Infinity" : "Infinity");
	return json_real(value);
}

static json_t *bits_json(enum vs_float_id id, double stored, double scale)
{
	struct vs_float_bits b = vs_float_encode(id, stored);
	char text[40];

	bit_text(id, b.bits, text);
	return json_pack("{s:s, s:i, s:i, s:i, s:i, s:s, s:o, s:o, s:s, s:s}", "bits", text, "sign", (int)b.sign,
	                 "exponent", (int)b.exponent, "bias", b.bias, "mantissa", (int)b.mantissa, "class",
	                 vs_float_class_name(b.klass), "stored", number(b.value), "value", number(b.value / scale),
	                 "event", vs_float_event_name(b.event), "name", vs_float_format(id)->name);
}

static void print_row(enum vs_float_id id, double value, double scale)
{
	struct vs_float_bits b = vs_float_encode(id, value * scale);
	double back = b.value / scale;
	char text[40];

	bit_text(id, b.bits, text);
	printf("%-8s  %-34s  %-9s  %-15.9g", vs_float_format(id)->name, text, vs_float_class_name(b.klass), back);
	if (b.event != VS_FLOAT_FITS && b.event != VS_FLOAT_GRADUAL)
		printf("  %s", vs_float_event_name(b.event));
	else if (value != 0)
		printf("  error %.2g %%", 100 * fabs(back - value) / fabs(value));
	putchar('\n');
}

/* The answer in a line: which formats keep it, and which do not. */
static void print_summary(const struct options *o, const char *text, double value, double scale)
{
	static const struct {
		enum vs_float_event event;
		const char *words;
	} fates[] = {{VS_FLOAT_FITS, "kept by"},
	             {VS_FLOAT_GRADUAL, "with fewer bits by"},
	             {VS_FLOAT_UNDERFLOW, "becomes 0 in"},
	             {VS_FLOAT_OVERFLOW, "overflows in"},
	             {VS_FLOAT_NOT_A_NUMBER, "no finite number:"}};
	const char *separator = ": ";

	fputs(text, stdout);
	if (scale != 1)
		printf(" x %g", scale);
	for (size_t i = 0; i < sizeof(fates) / sizeof(fates[0]); i++) {
		bool any = false;

		for (int id = 0; id < VS_FLOAT_COUNT; id++) {
			if ((o->format >= 0 && o->format != id) ||
			    vs_float_encode((enum vs_float_id)id, value * scale).event != fates[i].event)
				continue;
			printf("%s%s %s", any ? "" : separator, any ? "" : fates[i].words, format_names[id]);
			any = true;
		}
		separator = any ? "; " : separator;
	}
	putchar('\n');
}

static void print_value(const struct options *o, const char *text, double value)
{
	print_summary(o, text, value, 1);
	if (o->scale != 1)
		print_summary(o, text, value, o->scale);
	printf("\n%-8s  %-34s  %-9s  %s\n", "format", "sign exponent mantissa", "class", "becomes");
	for (int pass = 0; pass < (o->scale != 1 ? 2 : 1); pass++) {
		if (pass)
			printf("with loss scaling: stored as %.9g (x %g), then divided again\n", value * o->scale,
			       o->scale);
		for (int i = 0; i < VS_FLOAT_COUNT; i++) {
			if (o->format < 0 || o->format == i)
				print_row((enum vs_float_id)i, value, pass ? o->scale : 1);
		}
	}
}

static json_t *value_json(const struct options *o, double value)
{
	json_t *formats = json_array();

	for (int i = 0; i < VS_FLOAT_COUNT; i++) {
		json_t *entry;

		if (o->format >= 0 && o->format != i)
			continue;
		entry = bits_json((enum vs_float_id)i, value, 1);
		if (o->scale != 1)
			json_object_set_new(entry, "scaled",
			                    bits_json((enum vs_float_id)i, value * o->scale, o->scale));
		json_array_append_new(formats, entry);
	}
	return json_pack("{s:s, s:o, s:o, s:o}", "schema", "vramshim/float/1", "value", number(value), "scale",
	                 number(o->scale), "formats", formats);
}

static void print_table(void)
{
	printf("%-8s  %-18s  %-7s  %-10s  %-14s  %-16s  %s\n", "format", "sign+exp+mantissa", "stored", "largest",
	       "smallest full", "smallest at all", "epsilon");
	for (int i = 0; i < VS_FLOAT_COUNT; i++) {
		const struct vs_float_format *f = vs_float_format((enum vs_float_id)i);
		char fields[32];

		snprintf(fields, sizeof(fields), "1+%d+%d = %d", f->exponent_bits, f->mantissa_bits,
		         1 + f->exponent_bits + f->mantissa_bits);
		printf("%-8s  %-18s  %2d bits  %-10.5g  %-14.5g  %-16.5g  %.4g\n", f->name, fields, f->storage_bits,
		       vs_float_max((enum vs_float_id)i), vs_float_min_normal((enum vs_float_id)i),
		       vs_float_min_subnormal((enum vs_float_id)i), vs_float_epsilon((enum vs_float_id)i));
	}
	puts(
	    "Below \"smallest full\" mantissa bits are lost one by one; a value below half of \"smallest at all\" "
	    "is\n"
	    "rounded to 0. Hardware that flushes subnormals does it already below \"smallest full\".\n\nDefined by:");
	for (int i = 0; i < VS_FLOAT_COUNT; i++) {
		const struct vs_float_format *f = vs_float_format((enum vs_float_id)i);

		printf("  %-8s  %s\n", f->name, f->standard);
	}
}

static json_t *table_json(void)
{
	json_t *formats = json_array();

	for (int i = 0; i < VS_FLOAT_COUNT; i++) {
		enum vs_float_id id = (enum vs_float_id)i;
		const struct vs_float_format *f = vs_float_format(id);

		json_array_append_new(formats, json_pack("{s:s, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:s}", "name",
		                                         f->name, "exponent_bits", f->exponent_bits, "mantissa_bits",
		                                         f->mantissa_bits, "storage_bits", f->storage_bits, "max",
		                                         vs_float_max(id), "min_normal", vs_float_min_normal(id),
		                                         "min_subnormal", vs_float_min_subnormal(id), "epsilon",
		                                         vs_float_epsilon(id), "standard", f->standard));
	}
	return json_pack("{s:s, s:o}", "schema", "vramshim/float/1", "formats", formats);
}

int vs_float_main(int argc, char **argv)
{
	struct options o = {.format = -1, .scale = 1};
	struct vs_option options[] = {
	    {"--format", VS_OPTION_CHOICE, &o.format, .choices = format_names},
	    {"--scale", VS_OPTION_REAL, &o.scale},
	    {"--table", VS_OPTION_FLAG, &o.table},
	    {"--json", VS_OPTION_FLAG, &o.json},
	};
	const char *text = NULL;
	double value = 0;
	int found = vs_options_parse(argc, argv, options, sizeof(options) / sizeof(options[0]), &text, 1, usage);

	if (found < 0)
		return found == -ECANCELED ? 0 : 2;
	if (!(o.scale > 0)) {
		vs_complain("bad loss scale: %g: give a positive number, such as 1024", o.scale);
		return 2;
	}
	if (!found && !o.table) {
		vs_complain("no value: float: give a number, such as 1e-8, or --table");
		return 2;
	}
	if (found && o.table) {
		vs_complain("a value and --table: %s: give one of them", text);
		return 2;
	}
	if (found && vs_real_parse(text, &value)) {
		vs_complain("not a number: %s: give one such as 6.1e-5", text);
		return 2;
	}
	if (o.json) {
		json_t *json = o.table ? table_json() : value_json(&o, value);

		json_dumpf(json, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
		putchar('\n');
		json_decref(json);
	} else if (o.table) {
		print_table();
	} else {
		print_value(&o, text, value);
	}
	return 0;
}
