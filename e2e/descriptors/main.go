// Prints the protobuf descriptors that the istio.io/api module registers, as JSON lines, one per field and one
// per enum value. The test shared-proto/tests/descriptors.rs compares them with the project's own .proto files.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	_ "istio.io/api/extensions/v1alpha1"
	_ "istio.io/api/mcp/v1alpha1"
	_ "istio.io/api/networking/v1alpha3"
	_ "istio.io/api/networking/v1beta1"
	_ "istio.io/api/security/v1beta1"
	_ "istio.io/api/telemetry/v1alpha1"
	_ "istio.io/api/type/v1beta1"
)

// row is one field of a message or, with empty Type, one value of an enum.
type row struct {
	Package string `json:"package"`
	Parent  string `json:"parent"`
	Name    string `json:"name"`
	Number  int32  `json:"number"`
	Type    string `json:"type"`
	Label   string `json:"label"`
	Oneof   string `json:"oneof"`
	JSON    string `json:"json"`
}

func typeOf(field protoreflect.FieldDescriptor) string {
	switch field.Kind() {
	case protoreflect.MessageKind:
		return string(field.Message().FullName())
	case protoreflect.EnumKind:
		return string(field.Enum().FullName())
	default:
		return field.Kind().String()
	}
}

func fields(message protoreflect.MessageDescriptor, emit func(row)) {
	for i := 0; i < message.Fields().Len(); i++ {
		field := message.Fields().Get(i)
		oneof := ""
		if of := field.ContainingOneof(); of != nil {
			oneof = string(of.Name())
		}
		emit(row{
			Package: string(message.ParentFile().Package()),
			Parent:  string(message.FullName()),
			Name:    string(field.Name()),
			Number:  int32(field.Number()),
			Type:    typeOf(field),
			Label:   field.Cardinality().String(),
			Oneof:   oneof,
			JSON:    field.JSONName(),
		})
	}
	enums(message.Enums(), emit)
	for i := 0; i < message.Messages().Len(); i++ {
		fields(message.Messages().Get(i), emit)
	}
}

func enums(list protoreflect.EnumDescriptors, emit func(row)) {
	for i := 0; i < list.Len(); i++ {
		enum := list.Get(i)
		for j := 0; j < enum.Values().Len(); j++ {
			value := enum.Values().Get(j)
			emit(row{
				Package: string(enum.ParentFile().Package()),
				Parent:  string(enum.FullName()),
				Name:    string(value.Name()),
				Number:  int32(value.Number()),
			})
		}
	}
}

func main() {
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	var failed error
	emit := func(r row) {
		if err := encoder.Encode(r); err != nil {
			failed = err
		}
	}
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		if strings.HasPrefix(string(file.Package()), "istio.") {
			enums(file.Enums(), emit)
			for i := 0; i < file.Messages().Len(); i++ {
				fields(file.Messages().Get(i), emit)
			}
		}
		return failed == nil
	})
	if err := out.Flush(); failed == nil {
		failed = err
	}
	if failed != nil {
		fmt.Fprintln(os.Stderr, failed)
		os.Exit(1)
	}
}
